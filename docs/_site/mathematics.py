"""Formulas as MathML, written when the site is built.

Browsers draw MathML themselves: the site needs no script, no font and no network for it. A formula
that cannot be translated is a warning, and so an error of `make docs`.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_log = logging.getLogger(__name__)


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


def _written(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    source = node.astext()
    try:
        translator.body.append(mathml(source, block=block))
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
