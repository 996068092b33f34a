"""Conversion of option texts to Python objects: points, bounds, functions, directions, ….

An object is written as in Python, without ``gs.``: ``--directions "Guided(alpha=0.3)"``,
``--optimizer "sgd(cosine_decay(0.1, steps=500))"``. A user's own object is written as
``module:name``.
"""

import ast
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gensmooth import expressions, naming
from gensmooth.cli.options import Sets, Shell

_USER_OBJECT = re.compile(r"([^\s()\[\]{}'\"]+?):([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", re.DOTALL)


def read_function(text: str) -> Callable[..., Any]:
    """Import ``module:function`` or ``file.py:function``, looked up from this folder."""
    return naming.find_function(as_module(text))


def as_module(text: str) -> str:
    """Convert ``folder/module.py:function`` to ``module:function``; add ``folder`` to the path."""
    path, colon, name = text.rpartition(":")
    if not (colon and path.endswith(".py")):
        return text
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"There is no file {file.resolve()}.")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    loaded = naming.load_module(file.stem).__file__
    if loaded is None or Path(loaded).resolve() != file.resolve():
        raise ValueError(
            f"Rename {file}: Python already imports {file.stem!r} from {loaded or 'elsewhere'}."
        )
    return f"{file.stem}:{name}"


def _read_npy(text: str) -> Any:
    from gensmooth.runs.files import read_npy

    return read_npy(Path(text))


def read_start(text: str) -> Any:
    """Return the starting point."""
    import numpy as np

    kind, colon, number = text.partition(":")
    if colon and kind in ("zeros", "ones") and number.isdigit() and int(number) > 0:
        return np.zeros(int(number)) if kind == "zeros" else np.ones(int(number))
    if text.endswith(".npy"):
        return _read_npy(text)
    try:
        return np.array([float(part) for part in text.replace(",", " ").split()])
    except ValueError:
        raise ValueError(
            f"`--x0` must be numbers such as 1,2.5,-3, or zeros:100, ones:100, or a .npy file, "
            f"but is {text!r}."
        ) from None


def read_scale(text: str) -> Any:
    """Return one scale for all parameters, or an array with one for each."""
    import numpy as np

    if text.endswith(".npy"):
        return _read_npy(text)
    try:
        scales = [float(part) for part in text.replace(",", " ").split()]
        return scales[0] if len(scales) == 1 else np.array(scales)
    except (ValueError, IndexError):
        raise ValueError(
            f"`--x-scale` must be a number, or numbers such as 1,10,0.5, or a .npy file, but is "
            f"{text!r}."
        ) from None


def read_log_scale(text: str) -> Any:
    """Return True for all parameters, or a Boolean array."""
    import numpy as np

    if text == "all":
        return True
    if text.endswith(".npy"):
        return _read_npy(text)
    flags = {"1": True, "0": False}
    try:
        return np.array([flags[part] for part in text.replace(",", " ").split()])
    except KeyError:
        raise ValueError(
            f"`--log-scale` must be all, or 1 or 0 for each parameter such as 1,0,1, or a .npy "
            f"file, but is {text!r}."
        ) from None


def read_arguments(text: str) -> Any:
    """Return extra arguments of an objective: comma-separated literals."""
    try:
        return ast.literal_eval(f"({text},)") if text.strip() else ()
    except (SyntaxError, ValueError):
        raise ValueError(
            f"`--args` must be plain values as in Python, such as \"2, 'fast'\", but is {text!r}."
        ) from None


def read_noise(text: str) -> float | str:
    """Return the standard error of a value, or the text itself."""
    try:
        return float(text)
    except ValueError:
        return text


def read_bounds(texts: list[str]) -> Any:
    """Return ``(lower, upper)`` for all parameters, or a list with one pair for each."""
    if len(texts) == 1 and texts[0].endswith(".npy"):
        return [(float(low), float(high)) for low, high in _read_npy(texts[0])]
    pairs = [_pair(part) for text in texts for part in text.split()]
    return pairs[0] if len(pairs) == 1 else pairs


def _pair(text: str) -> tuple[float, float]:
    low, comma, high = text.partition(",")
    try:
        if not comma:
            raise ValueError
        return float(low or "-inf"), float(high or "inf")
    except ValueError:
        raise ValueError(
            f"`--bounds` must be lower,upper, such as -1,1, but is {text!r}."
        ) from None


def read_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes of hidden layers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(
            f"`--hidden` must be sizes such as 32 or 64,64, but is {text!r}."
        ) from None


def read_settings(texts: list[str]) -> dict[str, Any]:
    """Return arguments from ``name=value``; a value that is not a literal becomes a string."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise ValueError(f"`--env-arg` must be name=value, such as g=5.0, but is {text!r}.")
        try:
            settings[name.strip()] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            settings[name.strip()] = value.strip()
    return settings


def read_target(text: str) -> Any:
    """Return a number, ``"threshold"``, or ``None``."""
    if text in ("none", "threshold"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"`--target` must be a number, threshold or none, but is {text!r}."
        ) from None


def read_budget(text: str) -> int | None:
    """Return a number of evaluations, or ``None``."""
    if text == "none":
        return None
    try:
        if float(text).is_integer():
            return int(float(text))  # 1e5, for example
        raise ValueError
    except ValueError:
        raise ValueError(f"`--budget` must be a whole number or none, but is {text!r}.") from None


def read_workers(text: str) -> Any:
    """Return a number, an evaluator, or a user's map-like callable."""
    try:
        return int(text)
    except ValueError:
        return read_object(text, option="workers", module="gensmooth.evaluators")


def read_estimator(text: str) -> Any:
    """Return an estimator, from its short name or an expression."""
    from gensmooth.estimators import ESTIMATORS

    if text in ESTIMATORS:
        return ESTIMATORS[text]
    return read_object(text, option="estimator", words=tuple(ESTIMATORS))


def read_optimizer(text: str) -> Any:
    """Return an optimiser; ``greedy`` needs no arguments."""
    if text in ("adam", "momentum", "sgd"):
        raise ValueError(f"`--optimizer {text}` needs a rate: write `--optimizer '{text}(0.01)'`.")
    try:
        float(text)
    except ValueError:
        return read_object("greedy()" if text == "greedy" else text, option="optimizer")
    raise ValueError(
        f"`--optimizer` must be an object such as 'adam(0.01)', but is {text}: use "
        f"`--learning-rate {text}`, or 'adam(cosine_decay({text}, steps=1000))' for Adam with a "
        "rate that falls to 0."
    )


def read_policy(text: str) -> Any:
    """Return the name of a policy, or an object such as ``MLP(hidden=(64, 64))``."""
    return read_object(text, option="policy", module="gensmooth.rl") if "(" in text else text


def read_trackers(texts: list[str]) -> list[Any]:
    """Return trackers such as ``MLflow(experiment='mine')``."""
    return [read_object(text, option="tracker", module="gensmooth.observe") for text in texts]


def read_object(
    text: str, *, option: str, module: str = "gensmooth", words: tuple[str, ...] = ()
) -> Any:
    """Create an object from an expression: calls of public names with literal arguments only.

    Args:
        text: ``Name(...)`` with a public name of ``module``; or a user's object, ``users:name`` or
            ``users:Name(...)``.
        option: The option, for error messages.
        module: The module in which names are looked up.
        words: Other values that the option accepts, for error messages.

    >>> read_object("shrunk(Bernoulli())", option="directions")
    Shrunk(base=Bernoulli(...
    """
    users = _USER_OBJECT.fullmatch(text.strip())
    if users:
        target = naming.find(as_module(f"{users[1]}:{users[2]}"))
        if users[3] is None:
            return target() if isinstance(target, type) else target
        expression, names = f"it{users[3]}", {"it": lambda: target}
    else:
        expression, names = text.strip(), expressions.public(module)
    try:
        return expressions.build(expression, names)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, ValueError) and error.args:
            raise  # the object's own error
    known = f"one of {', '.join(words)}, or " if words else ""
    raise ValueError(
        f"`--{option}` must be {known}an object as in Python, such as {_EXAMPLES[option]}, or "
        f"your own as module:name, but is {text!r}."
    )


_EXAMPLES = {
    "directions": '"Guided(alpha=0.3)"',
    "estimator": "\"OnePoint('others')\"",
    "optimizer": '"adam(0.01, b1=0.8)"',
    "policy": '"MLP(hidden=(64, 64))"',
    "search": '"MirroredES(budget=1000)"',
    "tracker": "\"MLflow(experiment='mine')\"",
    "workers": '"Processes(4, timeout=60)"',
    "x0": '"my_module:parameters"',
}


def method_names() -> list[str]:
    """Return the names of all methods."""
    import gensmooth as gs

    return gs.methods()


def estimator_names() -> list[str]:
    """Return the names of all estimators."""
    from gensmooth.estimators import ESTIMATORS

    return list(ESTIMATORS)


# The options that describe the point x and its values, by parameter name.
POINTS = {
    "x0": Shell(
        type=str,
        read=read_start,
        how="In a shell: numbers such as 1,2.5,-3; zeros:100; ones:100; or a .npy file.",
    ),
    "bounds": Shell(
        type=list[str],
        read=read_bounds,
        how="In a shell: lower,upper for all parameters, such as -1,1 (leave one empty for no "
        "limit); repeat it to set each parameter; or a .npy file with a row for each.",
    ),
    "log_scale": Shell(
        type=str,
        read=read_log_scale,
        how="In a shell: all; 1 or 0 for each, such as 1,0,1; or a .npy file.",
    ),
    "noise": Shell(
        type=str,
        read=read_noise,
        how="In a shell: a number or returned.",
        complete=lambda: ["returned"],
    ),
}

# By parameter name, for the commands that make runs.
SHELL = {
    "args": Shell(
        type=str,
        read=read_arguments,
        how="In a shell: plain values as in Python, such as \"2, 'fast'\".",
    ),
    "method": Shell(how="See `gensmooth methods`.", complete=method_names),
    "search": Shell(
        type=str,
        read=partial(read_object, option="search"),
        how='In a shell: "MirroredES(budget=1000)" as in Python, or module:name.',
    ),
    "directions": Shell(
        type=str,
        read=partial(read_object, option="directions"),
        how='In a shell: "Guided(alpha=0.3)" as in Python, or module:name.',
    ),
    "spacing": Shell(type=float),
    "estimator": Shell(
        type=str,
        read=read_estimator,
        how="In a shell: forward, antithetic, one-point, ranked, centered-ranks, best-pairs, an "
        "object as in Python, or module:name.",
        complete=estimator_names,
    ),
    "optimizer": Shell(
        type=str, read=read_optimizer, how='In a shell: "adam(0.01)" as in Python, or module:name.'
    ),
    "workers": Shell(
        type=str,
        read=read_workers,
        how='In a shell, write an evaluator as in Python, "Threads(4)", or as module:name.',
    ),
    "callback": Shell(type=str, read=read_function, how="In a shell: module:function."),
    "trackers": Shell(
        name="tracker",
        type=list[str],
        read=read_trackers,
        how="In a shell: \"MLflow(experiment='mine')\" as in Python; may be repeated.",
    ),
    "ray": Shell(how="Use local to start one here.", complete=lambda: ["auto", "local"]),
}

# Short options for an evaluator and trackers: the most used parameter of each.
RAY = Sets("gensmooth.evaluators.ray:Ray", {"address": "ray"})
TRACKERS = (
    Sets("gensmooth.observe.trackers:TensorBoard", {"folder": "tensorboard"}),
    Sets("gensmooth.observe.trackers:MLflow", {"uri": "mlflow"}),
    Sets("gensmooth.observe.trackers:WandB", {"project": "wandb"}),
)
