"""Pages that no table of contents names come under the last heading of index.md.

So a new file in docs/ is part of the site at once; naming it in index.md says where it belongs.
"""

import posixpath
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

_TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```", re.S | re.M)
_ABOVE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples)": "gallery/index.rst)",
}
_ENTRY = re.compile(r"^(?:[^:\n<]+<)?([\w/.-]+)>?$", re.M)


def named(index: str) -> list[str]:
    """The pages that the tables of contents of index.md name, in order."""
    return [name for tree in _TOCTREE.findall(index) for name in _ENTRY.findall(tree)]


class Others(SphinxDirective):
    """``{other-pages}``: a toctree of the top pages that this page does not name."""

    has_content = False
    option_spec = {"caption": str}  # noqa: RUF012 - docutils asks for it

    def run(self) -> list[nodes.Node]:
        """The toctree, or nothing where every page is named."""
        page = self.env.docname
        known = {page, *named(self.env.doc2path(page).read_text(encoding="utf-8"))}
        left = sorted(
            name
            for name in self.env.found_docs
            if name not in known and not posixpath.dirname(name)
        )
        if not left:
            return []
        # pages may come and go while this one stays as it is
        self.env.note_reread()
        tree = addnodes.toctree(
            parent=page,
            entries=[(None, name) for name in left],
            includefiles=left,
            maxdepth=1,
            caption=self.options.get("caption"),
            rawcaption=self.options.get("caption"),
            glob=False,
            hidden=True,
            includehidden=False,
            numbered=0,
            titlesonly=True,
        )
        return [nodes.compound("", tree, classes=["toctree-wrapper"])]


def _inside(_: Sphinx, __: str, source: list[str]) -> None:
    """Files above docs/ are pages of the site too, under other names."""
    for name, here in _ABOVE.items():
        source[0] = source[0].replace(f"](../{name}", f"]({here}")


def setup(app: Sphinx) -> dict[str, object]:
    """The directive."""
    app.connect("source-read", _inside)
    app.add_directive("other-pages", Others)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
