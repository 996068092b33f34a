"""Reading and checking the parameters to train, by name."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from gensmooth import checks
from gensmooth.torch.modules import live_modules
from gensmooth.torch.tensors import DTYPES, MAX_ENTRIES, backend

Tensor = torch.Tensor
Pair = tuple[str, nn.Parameter]

# The prefixes that torch.compile, activation checkpointing and FSDP add to names.
_PREFIXES = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
_OPTIONS = ("lr", "weight_decay", "initial_lr")  # of a group; schedulers set the last
_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


class NamedGroups(NamedTuple):
    """The parameters to train.

    Attributes:
        groups: The parameter groups: pairs of name and parameter, and the group's own options.
        modules: All modules of the model; ``None`` if only parameters were passed.
        world: The number of processes of the model's ``DistributedDataParallel`` wrapper.
    """

    groups: list[tuple[list[Pair], dict[str, Any]]]
    modules: list[nn.Module] | None
    world: int = 1

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """All parameters by name."""
        return {name: w for pairs, _ in self.groups for name, w in pairs}


def read_parameters(params: object) -> NamedGroups:
    """Read the parameters to train from a model, named parameters or parameter groups.

    Frozen parameters (``requires_grad`` is False) are skipped.

    Raises:
        TypeError: If parameters have no names, or are not floating-point tensors.
        ValueError: If a name or a parameter occurs twice, or no parameters are left.
    """
    if isinstance(params, NamedGroups):  # already read
        return params
    modules = list(params.modules()) if isinstance(params, nn.Module) else None
    if isinstance(params, nn.Module):
        pairs = [(name, w) for name, w in params.named_parameters() if w.requires_grad]
        groups: list[tuple[list[Pair], dict[str, Any]]] = [(_checked(pairs), {})]
    else:
        groups = _groups(params)
    if not isinstance(params, Mapping):  # with a mapping, the user chooses what is trained
        _check_quantized(groups, modules)
    named = _unwrapped(groups, modules)
    _check_once(named)
    if not named.parameters:
        raise ValueError(
            "There are no parameters to train: `params` is empty, or all parameters are frozen. "
            "Set requires_grad to True for those to train (no gradient is computed)."
        )
    return named


def _groups(params: object) -> list[tuple[list[Pair], dict[str, Any]]]:
    if isinstance(params, Mapping):
        params = list(cast(Mapping[Any, Any], params).items())
    if isinstance(params, Tensor | str) or not isinstance(params, Iterable):
        raise TypeError(
            "`params` must be a model, model.named_parameters() or groups of these, but is "
            f"{checks.shown(params)}."
        )
    listed = list(cast(Iterable[Any], params))
    if listed and all(isinstance(each, dict) for each in listed):
        groups: list[tuple[list[Pair], dict[str, Any]]] = []
        for each in listed:
            options = dict(each)
            if "params" not in options:
                raise ValueError("A parameter group must have 'params': named parameters.")
            inner = options.pop("params")
            options.pop("param_names", None)
            if unknown := [name for name in options if name not in _OPTIONS]:
                raise ValueError(
                    f"A parameter group cannot have its own {unknown[0]!r}: only 'lr' and "
                    "'weight_decay' may differ between groups."
                )
            items: Any = cast(Any, inner).items() if isinstance(inner, Mapping) else inner
            groups.append((_checked(_trainable(items)), options))
        return groups
    return [(_checked(_trainable(listed)), {})]


def _trainable(items: Any) -> list[Pair]:
    """Return the pairs of name and parameter without frozen parameters.

    A frozen tensor of a type that cannot be trained is kept, so that :func:`_checked` rejects it.
    """
    if isinstance(items, Tensor) or not isinstance(items, Iterable):
        raise TypeError(_NAMELESS.format(checks.shown(items)))
    pairs: list[Pair] = []
    for item in cast(Iterable[object], items):
        pair = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else ()
        if len(pair) != 2:
            got = "a tensor" if isinstance(item, Tensor) else checks.shown(cast(object, item))
            raise TypeError(_NAMELESS.format(got))
        name, w = pair
        if not isinstance(name, str) or not name:
            raise TypeError(_NAMELESS.format(checks.shown(pair)))
        if not isinstance(w, Tensor):
            raise TypeError(f"The parameter {name!r} must be a tensor, but is {checks.shown(w)}.")
        if w.dtype not in DTYPES or w.requires_grad or not isinstance(w, nn.Parameter):
            pairs.append((name, cast(nn.Parameter, w)))
    return pairs


_NAMELESS = (
    "Parameters must have names, which determine their random numbers: pass the model, or "
    "model.named_parameters() instead of model.parameters(). Got {}."
)


def _checked(pairs: list[Pair]) -> list[Pair]:
    """Check that all parameters can be perturbed, and strip wrappers' prefixes from their names."""
    kept: list[Pair] = []
    for full_name, w in pairs:
        name = _without_prefixes(full_name)
        if w.dtype not in DTYPES:
            raise TypeError(
                f"The parameter {name!r} has type {w.dtype}, which cannot be perturbed: only "
                "float32, float16, bfloat16 and float64 can. Omit it, or pass the model itself, "
                "whose frozen parameters are skipped."
            )
        if sharded := _sharded(w):
            raise TypeError(
                f"The parameter {name!r} is sharded ({sharded}), which is not supported: use "
                "unsharded parameters in each process, and split the evaluations with "
                "ranks='directions'."
            )
        if w.layout != torch.strided or w.is_meta or w.is_inference():
            raise TypeError(
                f"The parameter {name!r} has no memory that can be changed: it is sparse, on the "
                "meta device, or was created in inference mode."
            )
        if w.numel() > MAX_ENTRIES:
            raise ValueError(
                f"A parameter may have at most 2^34 entries, but {name!r} has {w.numel()}."
            )
        backend(w.device)
        if w.numel():
            kept.append((name, w))
    return kept


def _without_prefixes(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.replace(prefix, "")
    return name


def _sharded(w: Tensor) -> str:
    """Return the library that shards a parameter across processes; empty if none does."""
    if type(w.data).__module__.startswith("torch.distributed"):
        return "a DTensor, of FSDP2 or tensor parallelism"
    if hasattr(w, "_fsdp_flattened") or hasattr(w, "_is_flat_param"):
        return "FullyShardedDataParallel"
    return "DeepSpeed ZeRO-3" if hasattr(w, "ds_tensor") else ""


def _unwrapped(
    groups: list[tuple[list[Pair], dict[str, Any]]], modules: list[nn.Module] | None
) -> NamedGroups:
    """Strip "module." from the names of parameters in data-parallel wrappers."""
    world = 1
    trained = {id(w) for pairs, _ in groups for _, w in pairs}
    if not any("module." in name for pairs, _ in groups for name, _ in pairs):
        return NamedGroups(groups, modules, world)
    for each in live_modules() if modules is None else modules:
        if not isinstance(each, DataParallel | DistributedDataParallel):
            continue
        wrapper = cast(Any, each)
        inside = {id(w): _without_prefixes(name) for name, w in wrapper.module.named_parameters()}
        if trained.isdisjoint(inside):
            continue
        if isinstance(each, DistributedDataParallel):
            world = max(world, wrapper.process_group.size())
        elif len(wrapper.device_ids) > 1:
            raise TypeError(
                "The model is wrapped in DataParallel, whose copies on other devices would not be "
                "perturbed: start one process per device, and pass ranks='batches'."
            )
        groups = [
            ([(_without_module(name, inside.get(id(w))), w) for name, w in pairs], options)
            for pairs, options in groups
        ]
    return NamedGroups(groups, modules, world)


def _without_module(name: str, inner: str | None) -> str:
    """Remove the "module." before the inner part of a name."""
    ending = f"module.{inner}"
    return name.removesuffix(ending) + inner if inner and name.endswith(ending) else name


def _check_quantized(
    groups: list[tuple[list[Pair], dict[str, Any]]], modules: list[nn.Module] | None
) -> None:
    """Raise an error if a model has quantised layers, whose weights cannot be trained."""
    everywhere = live_modules() if modules is None else modules
    quantized = {id(m): m for m in everywhere if type(m).__module__.startswith(_QUANTIZED)}
    if quantized and modules is None:  # only those in a model with one of the parameters
        trained = {id(w) for pairs, _ in groups for _, w in pairs}
        models = [m for m in everywhere if any(id(part) in quantized for part in m.modules())]
        models = [m for m in models if any(id(w) in trained for w in m.parameters())]
        quantized = {id(p): p for m in models for p in m.modules() if id(p) in quantized}
    if quantized:
        raise TypeError(
            "The model has quantised layers, such as "
            f"{type(next(iter(quantized.values()))).__name__}. Their weights are not parameters, "
            "so only the other layers would be trained. Train before quantising; or, to train only "
            "the other layers, pass dict(model.named_parameters())."
        )


class _Memory(NamedTuple):
    """The addresses that a parameter occupies."""

    device: str
    start: int
    stop: int
    name: str


def _check_once(named: NamedGroups) -> None:
    """Raise an error if a parameter, a name or an address occurs twice."""
    names: set[str] = set()
    tensors: dict[int, str] = {}
    occupied: list[_Memory] = []
    for pairs, _ in named.groups:
        for name, w in pairs:
            if id(w) in tensors:
                raise ValueError(
                    f"The parameter {name!r} occurs twice: it is also {tensors[id(w)]!r}."
                )
            if name in names:
                raise ValueError(f"Two parameters have the name {name!r}.")
            names.add(name)
            tensors[id(w)] = name
            start = w.data_ptr()
            reach = 1 + sum((n - 1) * s for n, s in zip(w.shape, w.stride(), strict=True))
            stop = start + reach * w.element_size()
            occupied.append(_Memory(str(w.device), start, stop, name))
    for left, right in pairwise(sorted(occupied)):
        if left.device == right.device and right.start < left.stop:
            raise ValueError(
                f"The parameters {left.name!r} and {right.name!r} share memory, which would be "
                "perturbed twice. Pass only one of them."
            )
