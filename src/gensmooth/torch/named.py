"""Parameters by name: what is moved, checked before anything is."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

from gensmooth import checks
from gensmooth.torch.found import live_modules
from gensmooth.torch.tensors import DTYPES, MOST_ENTRIES, backend

Tensor = torch.Tensor
Pair = tuple[str, nn.Parameter]

# What torch.compile, activation checkpoints and FSDP put before the names inside.
_PREFIXES = ("_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
_OPTIONS = ("lr", "weight_decay", "initial_lr")  # of a group; the last is a scheduler's
_QUANTIZED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")


class NamedGroups(NamedTuple):
    """What a user gave.

    Attributes:
        groups: Parameter groups: the pairs of name and parameter, and the group's own options.
        modules: All modules of the model, where a model was given.
        world: Over how many processes the model is spread by ``DistributedDataParallel``.
    """

    groups: list[tuple[list[Pair], dict[str, Any]]]
    modules: list[nn.Module] | None
    world: int = 1

    @property
    def parameters(self) -> dict[str, nn.Parameter]:
        """All parameters by name."""
        return {name: w for pairs, _ in self.groups for name, w in pairs}


def read_parameters(params: object) -> NamedGroups:
    """The parameters that are to be moved, from a model, named parameters or groups of these.

    Frozen parameters (``requires_grad`` is False) are left out.

    Raises:
        TypeError: When parameters have no names, or are not floating-point tensors.
        ValueError: When a name or a parameter occurs twice, or nothing is left.
    """
    if isinstance(params, NamedGroups):  # read before
        return params
    modules = list(params.modules()) if isinstance(params, nn.Module) else None
    if isinstance(params, nn.Module):
        pairs = [(name, w) for name, w in params.named_parameters() if w.requires_grad]
        groups: list[tuple[list[Pair], dict[str, Any]]] = [(_checked(pairs), {})]
    else:
        groups = _groups(params)
    if not isinstance(params, Mapping):
        _check_quantized(groups, modules)
    given = _unwrapped(groups, modules)
    _check_once(given)
    if not given.parameters:
        raise ValueError(
            "There is nothing to move: no parameter was given, or all are frozen. Parameters are "
            "moved where requires_grad is True (no gradient is ever computed)."
        )
    return given


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
            own = dict(each)
            if "params" not in own:
                raise ValueError("A parameter group must have 'params': named parameters.")
            inner = own.pop("params")
            own.pop("param_names", None)
            if unknown := [name for name in own if name not in _OPTIONS]:
                raise ValueError(
                    f"A parameter group cannot have its own {unknown[0]!r}: only 'lr' and "
                    "'weight_decay'. The rest is the same for all groups."
                )
            items: Any = cast(Any, inner).items() if isinstance(inner, Mapping) else inner
            groups.append((_checked(_trainable(items)), own))
        return groups
    return [(_checked(_trainable(listed)), {})]


def _trainable(items: Any) -> list[Pair]:
    """Pairs of name and parameter; frozen floating-point parameters are left out."""
    if isinstance(items, Tensor) or not isinstance(items, Iterable):
        raise TypeError(_NAMELESS.format(checks.shown(items)))
    found: list[Pair] = []
    for item in cast(Iterable[object], items):
        pair = cast("tuple[Any, ...]", item) if isinstance(item, tuple) else ()
        if len(pair) != 2:
            what = "a tensor" if isinstance(item, Tensor) else checks.shown(cast(object, item))
            raise TypeError(_NAMELESS.format(what))
        name, w = pair
        if not isinstance(name, str) or not name:
            raise TypeError(_NAMELESS.format(checks.shown(pair)))
        if not isinstance(w, Tensor):
            raise TypeError(f"The parameter {name!r} must be a tensor, but is {checks.shown(w)}.")
        if w.dtype not in DTYPES or w.requires_grad or not isinstance(w, nn.Parameter):
            found.append((name, cast(nn.Parameter, w)))
    return found


_NAMELESS = (
    "Parameters must come with their names, which address their random numbers: give the model, or "
    "model.named_parameters() instead of model.parameters(). Got {}."
)


def _checked(pairs: list[Pair]) -> list[Pair]:
    """The same pairs, names without what wrappers add, if all can be moved."""
    kept: list[Pair] = []
    for given, w in pairs:
        name = _without_prefixes(given)
        if w.dtype not in DTYPES:
            raise TypeError(
                f"The parameter {name!r} is of type {w.dtype}, which cannot be perturbed: only "
                "float32, float16, bfloat16 and float64 can. Leave it out: give the model itself, "
                "whose frozen parameters are left out."
            )
        if sharded := _sharded(w):
            raise TypeError(
                f"The parameter {name!r} is sharded ({sharded}), which is not supported: give each "
                "process whole parameters, and split the evaluations with ranks='directions'."
            )
        if w.layout != torch.strided or w.is_meta or w.is_inference():
            raise TypeError(
                f"The parameter {name!r} has no memory that can be moved: it is sparse, on the "
                "meta device, or was made in inference mode."
            )
        if w.numel() > MOST_ENTRIES:
            raise ValueError(f"The parameter {name!r} has more than 2^34 entries.")
        backend(w.device)
        if w.numel():
            kept.append((name, w))
    return kept


def _without_prefixes(name: str) -> str:
    for prefix in _PREFIXES:
        name = name.replace(prefix, "")
    return name


def _sharded(w: Tensor) -> str:
    """By what a parameter is split over processes; empty if it is whole."""
    if type(w.data).__module__.startswith("torch.distributed"):
        return "a DTensor, of FSDP2 or tensor parallelism"
    if hasattr(w, "_fsdp_flattened") or hasattr(w, "_is_flat_param"):
        return "FullyShardedDataParallel"
    return "DeepSpeed ZeRO-3" if hasattr(w, "ds_tensor") else ""


def _unwrapped(
    groups: list[tuple[list[Pair], dict[str, Any]]], modules: list[nn.Module] | None
) -> NamedGroups:
    """The groups, names without the "module." of wrappers around a model or a part of it."""
    world = 1
    given = {id(w) for pairs, _ in groups for _, w in pairs}
    wrapped = any("module." in name for pairs, _ in groups for name, _ in pairs)
    for each in (live_modules() if modules is None else modules) if wrapped else ():
        if not isinstance(each, DataParallel | DistributedDataParallel):
            continue
        wrapper = cast(Any, each)
        inside = {id(w): _without_prefixes(name) for name, w in wrapper.module.named_parameters()}
        if given.isdisjoint(inside):
            continue
        if isinstance(each, DistributedDataParallel):
            world = max(world, wrapper.process_group.size())
        elif len(wrapper.device_ids) > 1:
            raise TypeError(
                "The model is in DataParallel, whose copies on other devices would not be "
                "perturbed: start one process for each device, and pass ranks='batches'."
            )
        groups = [
            ([(_without_module(name, inside.get(id(w))), w) for name, w in pairs], own)
            for pairs, own in groups
        ]
    return NamedGroups(groups, modules, world)


def _without_module(name: str, inner: str | None) -> str:
    """A name without the "module." before its inner part."""
    ending = f"module.{inner}"
    return name.removesuffix(ending) + inner if inner and name.endswith(ending) else name


def _check_quantized(
    groups: list[tuple[list[Pair], dict[str, Any]]], modules: list[nn.Module] | None
) -> None:
    """Refuse a model some of whose weights are integers that nothing can move."""
    everywhere = live_modules() if modules is None else modules
    quantized = {id(m): m for m in everywhere if type(m).__module__.startswith(_QUANTIZED)}
    if quantized and modules is None:  # only where they are in one model with a parameter
        given = {id(w) for pairs, _ in groups for _, w in pairs}
        models = [m for m in everywhere if any(id(part) in quantized for part in m.modules())]
        models = [m for m in models if any(id(w) in given for w in m.parameters())]
        quantized = {id(p): p for m in models for p in m.modules() if id(p) in quantized}
    if quantized:
        raise TypeError(
            "The model has quantised layers, such as "
            f"{type(next(iter(quantized.values()))).__name__}: their weights are not parameters, "
            "and only the rest would be trained. Train before quantising; or, to train only the "
            "rest, give it as a dict: dict(model.named_parameters())."
        )


def _check_once(given: NamedGroups) -> None:
    names: set[str] = set()
    tensors: dict[int, str] = {}
    ranges: list[tuple[str, int, int, str]] = []
    for pairs, _ in given.groups:
        for name, w in pairs:
            if id(w) in tensors:
                raise ValueError(
                    f"The parameter {name!r} is given twice: it is also {tensors[id(w)]!r}."
                )
            if name in names:
                raise ValueError(f"The name {name!r} is given twice, for two parameters.")
            names.add(name)
            tensors[id(w)] = name
            start = w.data_ptr()
            reach = 1 + sum((n - 1) * s for n, s in zip(w.shape, w.stride(), strict=True))
            ranges.append((str(w.device), start, start + reach * w.element_size(), name))
    ranges.sort()
    for left, right in pairwise(ranges):
        if left[0] == right[0] and right[1] < left[2]:
            raise ValueError(
                f"The parameters {left[3]!r} and {right[3]!r} share memory: one would be moved "
                "twice. Give one of them."
            )
