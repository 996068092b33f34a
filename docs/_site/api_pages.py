"""The reference: a page for `gensmooth` and one for each of its public modules.

The pages are written into docs/api when the site is built. A name that `gensmooth` itself has is
described there and linked from the page of the module that it comes from.
"""

import posixpath
import re
import shutil
from collections.abc import Collection, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

import gensmooth

_log = logging.getLogger(__name__)
ALSO = ("studies",)  # public too, though too rarely needed to be a name of the package


def modules() -> list[str]:
    """The public modules that can be imported here; an extra may be missing."""
    names = sorted({*gensmooth._MODULES, *ALSO})
    found = []
    for name in names:
        try:
            import_module(f"gensmooth.{name}")
        except ImportError as error:
            _log.info("no page for gensmooth.%s: %s", name, error)
        else:
            found.append(name)
    return found


def public(module: ModuleType) -> list[str]:
    """What a module offers: `__all__`, or what it defines."""
    if hasattr(module, "__all__"):
        names = [name for name in module.__all__ if not name.startswith("_")]
    else:
        names = [
            name
            for name, value in vars(module).items()
            if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        ]
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def pages() -> dict[str, str]:
    """Every page, as reStructuredText; each thing is described once, where it is met first."""
    homes: dict[int, str] = {}
    found = {}
    for name in ("gensmooth", *(f"gensmooth.{each}" for each in modules())):
        module = import_module(name)
        here, elsewhere = [], []
        for each in sorted(public(module), key=str.lower):
            value = getattr(module, each)
            home = homes.setdefault(id(value), f"{name}.{each}")
            (here if home == f"{name}.{each}" else elsewhere).append((home, value))
        lines = [name, "=" * len(name), "", f".. automodule:: {name}", "   :no-members:", ""]
        if here:
            said = ", ".join(f":py:obj:`{home.rpartition('.')[2]} <{home}>`" for home, _ in here)
            lines += [f"On this page: {said}.", ""]
        if elsewhere:
            said = ", ".join(f":py:obj:`{home}`" for home, _ in elsewhere)
            lines += [f"Described elsewhere: {said}.", ""]
        for home, value in here:
            lines += [*described(home, value), ""]
        found[name.rpartition(".")[2]] = "\n".join(lines)
    return found


def described(name: str, value: object) -> list[str]:
    """One name: by its docstring, or, if it is plain data, by what it holds."""
    if isinstance(value, type):
        return [f".. autoclass:: {name}", "   :members:"]
    if callable(value) and hasattr(value, "__name__"):
        return [f".. autofunction:: {name}"]
    lines = [f".. py:data:: {name}", ""]
    if isinstance(value, Mapping):
        return [*lines, "   A table of " + ", ".join(f"``{key}``" for key in value) + "."]
    if isinstance(value, Collection) and not isinstance(value, str):
        return [*lines, "   " + ", ".join(f"``{each}``" for each in sorted(map(str, value))) + "."]
    return [*lines, f"   ``{str(value).replace('typing.', '')}``"]


def write(app: Sphinx) -> None:
    """All pages; those that have not changed are left alone, so that Sphinx need not read them."""
    folder = Path(app.srcdir) / "api"
    written = pages()
    listed = "\n".join(f"   {name}" for name in written)
    written["index"] = (
        "API reference\n=============\n\nPublic names, from their docstrings. "
        "``import gensmooth as gs`` is assumed.\n\n"
        f".. toctree::\n   :maxdepth: 1\n\n{listed}\n"
    )
    if folder.exists() and {each.stem for each in folder.iterdir()} - set(written):
        shutil.rmtree(folder)
    folder.mkdir(exist_ok=True)
    for name, text in written.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


_BACK = re.compile(r'(class="viewcode-back" href="([^"#]+)\.html#)([^"]+)"')


def mend_links(app: Sphinx, pagename: str, _: str, context: dict[str, Any], *__: object) -> None:
    """Let each link from a page of source code lead to where the name is described.

    Sphinx assumes that all names of a module are described under one prefix. Ours are described
    where they are met first: some as gensmooth.X, others as gensmooth.module.X. It also lists a
    page of built-in functions, which it does not write.
    """
    if not pagename.startswith("_modules/"):
        return
    objects = app.env.domains["py"].data["objects"]

    def mended(found: re.Match[str]) -> str:
        start, page, name = found.groups()
        page = posixpath.normpath(posixpath.join(posixpath.dirname(pagename), page))
        words = name.split(".")
        tails = [name, *("." + ".".join(words[i:]) for i in range(1, len(words)))]
        here = {each: entry.node_id for each, entry in objects.items() if entry.docname == page}
        anchors = (here[each] for tail in tails for each in here if each.endswith(tail))
        return f'{start}{next(anchors, name)}"'

    body = _BACK.sub(mended, context["body"])
    context["body"] = body.replace('<li><a href="builtins.html">builtins</a></li>', "")


def setup(app: Sphinx) -> dict[str, object]:
    """Pages are written before Sphinx looks for them; links are mended as pages are written."""
    app.connect("builder-inited", write)
    app.connect("html-page-context", mend_links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
