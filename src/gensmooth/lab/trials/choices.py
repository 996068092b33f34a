"""Methods by name, each with its options.

``"bes"`` is a method with its defaults; ``"bes(spacing=0.01, learning_rate=0.1)"`` has options,
written as in Python. Options of the problem (samples, bounds, …) are the same for all methods and
passed once.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from gensmooth import checks, expressions
from gensmooth.lab.trials.identity import described
from gensmooth.optimize import minimize
from gensmooth.searches.algorithms.table import is_custom

# Arguments of `minimize` that describe the problem, and those that the engine sets.
PROBLEM = (
    *("samples", "num_samples", "maximize", "bounds", "log_scale", "noise", "vectorized"),
    *("on_failure", "min_fraction"),
)
_OURS = (
    *("fun", "x0", "search", "method", "budget", "seed", "workers", "timeout", "retries"),
    *("folder", "every", "callback", "progress", "trackers", "threads"),
    *("max_steps", "max_seconds", "target", "tolerance"),
)


class Choice(NamedTuple):
    """A method with its options.

    Attributes:
        label: Its name in tables.
        method: Its name.
        options: Its options.
    """

    label: str
    method: str
    options: Mapping[str, Any]

    def config(self) -> dict[str, Any]:
        """Return the choice as plain JSON, for the configuration of a run."""
        options = {name: described(value) for name, value in sorted(self.options.items())}
        return {"method": self.method, "options": options}


@cache
def option_names() -> tuple[str, ...]:
    """Return the parameters of :func:`~gensmooth.minimize` that are options of a method."""
    names = inspect.signature(minimize).parameters
    return tuple(name for name in names if name not in (*PROBLEM, *_OURS))


def read_choices(
    methods: object, *, allowed: Callable[[], Sequence[str]] = option_names
) -> list[Choice]:
    """Read choices from names, or from a mapping of labels to options.

    >>> [(c.label, c.method, dict(c.options)) for c in read_choices(["gs", "bes(spacing=0.01)"])]
    [('gs', 'gs', {}), ('bes(spacing=0.01)', 'bes', {'spacing': 0.01})]
    >>> read_choices({"small": {"method": "bes", "spacing": 0.01}})[0].label
    'small'
    """
    choices: list[Choice]
    if isinstance(methods, Mapping):
        items = cast(Mapping[Any, Any], methods).items()
        choices = [_labelled(label, options) for label, options in items]
    elif isinstance(methods, str):
        choices = [read_choice(part) for part in parts(methods)]
    elif isinstance(methods, Iterable):
        choices = [read_choice(each) for each in cast(Iterable[Any], methods)]
    else:
        raise TypeError(
            "`methods` must be names such as ['auto', 'bes(spacing=0.01)'], or a mapping from "
            f"labels to options, but is {checks.shown(methods)}."
        )
    if not choices:
        raise ValueError("`methods` is empty: name at least one, such as 'auto'.")
    labels = [choice.label for choice in choices]
    for label in labels:
        if labels.count(label) > 1:
            raise ValueError(f"`methods` has {label!r} twice.")
    for choice in choices:
        for name in choice.options:
            if name not in allowed():
                raise ValueError(_unknown(choice, name, allowed()))
    return choices


def read_choice(text: object) -> Choice:
    """Read one choice from its text."""
    written = checks.text("methods", text).strip()
    name, paren, _ = written.partition("(")
    if not paren:
        return Choice(written, written, {})
    try:
        tree = ast.parse(f"it{written[len(name) :]}", mode="eval").body
        if not isinstance(tree, ast.Call) or tree.args:
            raise ValueError
        names = expressions.public("gensmooth")
        options = {
            str(keyword.arg): expressions.value_of(keyword.value, names)
            for keyword in tree.keywords
            if keyword.arg is not None
        }
    except (SyntaxError, ValueError) as error:
        if isinstance(error, ValueError) and error.args and not str(error).startswith("malformed"):
            raise
        raise ValueError(
            "`methods` must be names, with options as in Python if needed, such as "
            f"bes(spacing=0.01, learning_rate=0.1), but one is {checks.shown(written)}."
        ) from None
    return Choice(written, name.strip(), options)


def parts(text: str) -> list[str]:
    """Split a text at its commas, but not inside brackets and quotes.

    >>> parts("auto, bes(spacing=0.1, learning_rate=0.01),gs")
    ['auto', 'bes(spacing=0.1, learning_rate=0.01)', 'gs']
    """
    split, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += (letter in "([{") - (letter in ")]}") if not quote else 0
        if letter == "," and depth == 0 and not quote:
            split.append("")
        else:
            split[-1] += letter
    return [part.strip() for part in split]


def _labelled(label: object, options: object) -> Choice:
    name = checks.text("methods", label)
    if isinstance(options, str):
        return read_choice(options)._replace(label=name)
    chosen = checks.mapping(f"methods[{name!r}]", options)
    method = checks.text("method", chosen.pop("method", name))
    return Choice(name, method, chosen)


def _unknown(choice: Choice, name: str, allowed: Sequence[str]) -> str:
    hint = checks.did_you_mean(name, allowed)
    if name in PROBLEM:
        return f"{choice.label!r} has `{name}`, which all methods share: pass it once."
    if is_custom(choice.method):
        return (
            f"{choice.label!r} has `{name}`, but a custom search has no options here: register it "
            "with other settings under another name (docs/contributing/search.md)."
        )
    return (
        f"{choice.label!r} has `{name}`, which is not an option of a method.{hint} Known: "
        f"{', '.join(allowed)}."
    )
