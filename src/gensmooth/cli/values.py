"""How a shell says what Python has objects for: points, bounds, functions, directions, ….

An object is written as in Python, without ``gs.``: ``--directions "Guided(alpha=0.3)"``,
``--optimizer "sgd(cosine_decay(0.1, steps=500))"``; or, if it is the user's own, as
``module:name``.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gensmooth import expressions, naming
from gensmooth.cli.options import Sets, Shell

_OWN = re.compile(r"([^\s()\[\]{}'\"]+?):([A-Za-z_]\w*(?:\.\w+)*)(\(.*\))?", re.DOTALL)
OPTIMIZERS = ("adam", "greedy", "momentum", "sgd")


def read_function(text: str) -> Callable[..., Any]:
    """The function of ``module:function`` or ``file.py:function``, found from this folder on."""
    return naming.find_function(as_module(text))


def as_module(text: str) -> str:
    """``module:function`` from ``path/to/module.py:function``, whose folder is put on the path."""
    path, colon, name = text.rpartition(":")
    if not (colon and path.endswith(".py")):
        return text
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"There is no file {file.resolve()}.")
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    found = naming.load_module(file.stem).__file__
    if found is None or Path(found).resolve() != file.resolve():
        raise ValueError(f"{file} needs another name: {file.stem!r} is {found or 'taken'}.")
    return f"{file.stem}:{name}"


def read_start(text: str) -> Any:
    """The starting point from its words."""
    import numpy as np

    kind, colon, number = text.partition(":")
    if colon and kind in ("zeros", "ones") and number.isdigit() and int(number) > 0:
        return np.zeros(int(number)) if kind == "zeros" else np.ones(int(number))
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    try:
        return np.array([float(part) for part in text.replace(",", " ").split()])
    except ValueError:
        raise ValueError(
            f"`--x0` must be numbers such as 1,2.5,-3, or zeros:100, ones:100, or a .npy file, "
            f"but is {text!r}."
        ) from None


def read_scale(text: str) -> Any:
    """One scale for all parameters, or an array of one for each."""
    import numpy as np

    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    try:
        scales = [float(part) for part in text.replace(",", " ").split()]
        return scales[0] if len(scales) == 1 else np.array(scales)
    except (ValueError, IndexError):
        raise ValueError(
            f"`--x-scale` must be a number, or numbers such as 1,10,0.5, or a .npy file, but is "
            f"{text!r}."
        ) from None


def read_truths(text: str) -> Any:
    """True for all parameters, or an array of one truth value for each."""
    import numpy as np

    if text == "all":
        return True
    if text.endswith(".npy"):
        return np.load(text, allow_pickle=False)
    truths = {"1": True, "0": False}
    try:
        return np.array([truths[part] for part in text.replace(",", " ").split()])
    except KeyError:
        raise ValueError(
            f"`--log-scale` must be all, or 1 or 0 for each parameter such as 1,0,1, or a .npy "
            f"file, but is {text!r}."
        ) from None


def read_noise(text: str) -> float | str:
    """A standard error, or a word."""
    try:
        return float(text)
    except ValueError:
        return text


def read_bounds(texts: list[str]) -> Any:
    """``(lower, upper)`` for all parameters, or a list of one for each."""
    import numpy as np

    if len(texts) == 1 and texts[0].endswith(".npy"):
        return [(float(low), float(high)) for low, high in np.load(texts[0], allow_pickle=False)]
    pairs = [_pair(part) for text in texts for part in text.split()]
    return pairs[0] if len(pairs) == 1 else pairs


def _pair(text: str) -> tuple[float, float]:
    low, comma, high = text.partition(",")
    try:
        if not comma:
            raise ValueError
        return float(low or "-inf"), float(high or "inf")
    except ValueError:
        raise ValueError(f"`--bounds` must be lower,upper, such as -1,1, not {text!r}.") from None


def read_sizes(text: str) -> tuple[int, ...]:
    """The sizes of hidden layers."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"`--hidden` must be sizes such as 32 or 64,64, not {text!r}.") from None


def read_workers(text: str) -> Any:
    """A number, an evaluator, or a map-like callable of the user's."""
    try:
        return int(text)
    except ValueError:
        return read_object(text, option="workers", module="gensmooth.evaluators")


def read_estimator(text: str) -> Any:
    """An estimator by its short name, or an object."""
    from gensmooth.estimators import ESTIMATORS

    if text in ESTIMATORS:
        return ESTIMATORS[text]
    return read_object(text, option="estimator", words=tuple(ESTIMATORS))


def read_optimizer(text: str) -> Any:
    """A short name, as it is; a learning rate; or an object."""
    if text in OPTIMIZERS:
        return text
    try:
        return float(text)
    except ValueError:
        return read_object(text, option="optimizer", words=OPTIMIZERS)


def read_policy(text: str) -> Any:
    """The name of a policy, or an object such as ``MLP(hidden=(64, 64))``."""
    return read_object(text, option="policy", module="gensmooth.rl") if "(" in text else text


def read_trackers(texts: list[str]) -> list[Any]:
    """Trackers such as ``MLflow(experiment='mine')``."""
    return [read_object(text, option="tracker", module="gensmooth.observe") for text in texts]


def read_directions(text: str) -> Any:
    """Directions such as ``Guided(alpha=0.3)``."""
    return read_object(text, option="directions")


def read_object(
    text: str, *, option: str, module: str = "gensmooth", words: tuple[str, ...] = ()
) -> Any:
    """An object, written as in Python: calls of public names with literal arguments, nothing else.

    Args:
        text: ``Name(...)`` of a public name of ``module``; or ``own:name``, an object of the
            user's, or ``own:Name(...)``.
        option: The option, for an error.
        module: Where names are looked up.
        words: What else the option could be, for an error.

    >>> read_object("shrunk(Bernoulli())", option="directions")
    Shrunk(base=Bernoulli(...
    """
    own = _OWN.fullmatch(text.strip())
    if own:
        found = naming.find(as_module(f"{own[1]}:{own[2]}"))
        if own[3] is None:
            return found() if isinstance(found, type) else found
        expression, names = f"it{own[3]}", {"it": lambda: found}
    else:
        expression, names = text.strip(), expressions.public(module)
    try:
        return expressions.build(expression, names)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, ValueError) and error.args:
            raise  # the object's own words
    known = f"one of {', '.join(words)}, or " if words else ""
    raise ValueError(
        f"`--{option}` must be {known}an object as in Python, such as {_EXAMPLES[option]}, or "
        f"module:name of one of your own, but is {text!r}."
    )


_EXAMPLES = {
    "directions": '"Guided(alpha=0.3)"',
    "estimator": "\"OnePoint('others')\"",
    "optimizer": '"adam(0.01, b1=0.8)"',
    "policy": '"MLP(hidden=(64, 64))"',
    "tracker": "\"MLflow(experiment='mine')\"",
    "workers": '"Processes(4, timeout=60)"',
}


def method_names() -> list[str]:
    """The methods there are, and the name of the default, which is none of them."""
    from gensmooth.methods import METHODS
    from gensmooth.pilot import AUTO

    return [AUTO, *METHODS]


def estimator_names() -> list[str]:
    """The estimators there are."""
    from gensmooth.estimators import ESTIMATORS

    return list(ESTIMATORS)


_OBJECT = "In the shell written as in Python,"

# By the parameter's name, for the commands that run something.
SHELL = {
    "method": Shell(how="See `gensmooth methods`.", complete=method_names),
    "directions": Shell(
        type=str, read=read_directions, how=f'{_OBJECT} "Guided(alpha=0.3)", or as module:name.'
    ),
    "estimator": Shell(
        type=str,
        read=read_estimator,
        how="In the shell forward, antithetic, one-point, ranked, an object as in Python, or "
        "module:name.",
        complete=estimator_names,
    ),
    "optimizer": Shell(
        type=str,
        read=read_optimizer,
        how="In the shell adam, momentum or sgd with --learning-rate, greedy without, an object "
        "as in Python, or module:name.",
        complete=lambda: list(OPTIMIZERS),
    ),
    "workers": Shell(
        type=str, read=read_workers, how=f'{_OBJECT} "Threads(4)", or as module:name.'
    ),
    "callback": Shell(type=str, read=read_function, how="In the shell module:function."),
    "trackers": Shell(
        name="tracker",
        type=list[str],
        read=read_trackers,
        how=f"{_OBJECT} \"MLflow(experiment='mine')\"; may be given several times.",
    ),
    "ray": Shell(how="In the shell local starts one.", complete=lambda: ["auto", "local"]),
}

# Short ways to an evaluator and to trackers: the one parameter of each that is mostly wanted.
RAY = Sets("gensmooth.evaluators.ray:Ray", {"address": "ray"})
TRACKERS = (
    Sets("gensmooth.observe.trackers:TensorBoard", {"folder": "tensorboard"}),
    Sets("gensmooth.observe.trackers:MLflow", {"uri": "mlflow"}),
    Sets("gensmooth.observe.trackers:WandB", {"project": "wandb"}),
)
