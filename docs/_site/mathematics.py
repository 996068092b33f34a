"""Formulas as MathML, written when the site is built.

Browsers draw MathML themselves: the site needs no script, no font and no network for it. They do
not break lines in it, so a displayed formula is written in parts, which the style sheet puts side
by side where there is room. So is a long formula in a sentence. A formula that cannot be translated
is a warning, and so an error of `make docs`.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)
_LONG = 60  # characters of a formula in a sentence, from which its lines may break


def mathml(source: str, *, block: bool) -> str:
    """A formula in MathML.

    Raises:
        ValueError: If it has a command that is not known.
    """
    try:
        found = convert(source.replace(r"\|", "‖"), display="block" if block else "inline")
    except Exception as error:  # its own exceptions have no common ancestor
        raise ValueError(repr(error)) from error
    if left := re.search(r">[^<]*\\[^<]*<", found):
        raise ValueError(f"{left[0][1:-1]} is left")
    return found


_BREAKS = re.compile(
    r"\\(?:begin|left)\b|\\(?:end|right)\b|\\[Bb]igg?l.|\\[Bb]igg?r.|\\q?quad\b|"
    r"\\(?:l?leftarrow|le|ge|sim|approx|propto)(?![a-zA-Z])|\\[a-zA-Z]+|\\.|[{(\[]|[})\]]|[=+−-]"
)
_SIGN = re.compile(r"[=+−-]|\\(?:l?leftarrow|le|ge|sim|approx|propto)(?![a-zA-Z])")


def parts(source: str) -> list[list[str]]:
    r"""A formula in groups, divided at \quad, and each group in parts, before a relation or a sign.

    >>> parts(r"a = b + (c + d) \qquad e")
    [['a', '{}= b', '{}+ (c + d) \\qquad'], ['e']]
    """
    groups: list[list[str]] = [[]]
    depth, begin = 0, 0
    for token in _BREAKS.finditer(source):
        text = token[0]
        if text in ("{", "(", "[") or re.match(r"\\(begin|left\b|[Bb]igg?l)", text):
            depth += 1
        elif text in ("}", ")", "]") or re.match(r"\\(end|right\b|[Bb]igg?r)", text):
            depth -= 1
        elif depth == 0 and _breaks(text, source[begin : token.start()]):
            end = token.end() if "quad" in text else token.start()
            groups[-1].append(source[begin:end])
            begin = end
            if "quad" in text:
                groups.append([])
    groups[-1].append(source[begin:])
    return [[_infix(part.strip()) for part in group if part.strip()] for group in groups]


def _infix(part: str) -> str:
    """Let a sign at the beginning of a part have the space that it has inside a formula."""
    return f"{{}}{part}" if _SIGN.match(part) else part


def _breaks(text: str, before: str) -> bool:
    """Whether a line may end before this token."""
    if "quad" in text:
        return True
    ends_in_relation = re.search(
        r"(?:[=+−(,:-]|\\(?:le|ge|sim|approx|propto|leftarrow|cdot))\s*$", before
    )
    return bool(_SIGN.match(text) and before.strip() and not ends_in_relation)


def _written(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    source = node.astext()
    try:
        if block:
            groups = [
                "".join(mathml(part, block=True) for part in group) for group in parts(source)
            ]
            translator.body.append("".join(f"<span>{group}</span>" for group in groups))
        else:
            groups = parts(source) if len(source) > _LONG else [[source]]
            pieces = [piece for group in groups for piece in group]
            translator.body.append("".join(mathml(piece, block=False) for piece in pieces))
    except ValueError as error:
        _log.warning("a formula that MathML cannot say: %s (%s)", source, error, location=node)
        translator.body.append(f"<code>{translator.encode(source)}</code>")


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    _written(translator, node, block=False)
    raise nodes.SkipNode


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    _written(translator, node, block=True)
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, object]:
    """A renderer that `html_math_renderer` names."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
