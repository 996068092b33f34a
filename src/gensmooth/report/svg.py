"""Matplotlib's SVG made fit for a page: small, with its own identifiers, in the page's colours."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_NUMBER = re.compile(r"-?\d+\.\d+")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_FONT = re.compile(r"font-family:[^;]*;?\s*")
_COLOR = re.compile(r"#[0-9a-f]{6}")


def standalone(svg: str) -> str:
    """A file of its own: without metadata and with rounded coordinates.

    Args:
        svg: What Matplotlib wrote.
    """
    root = _clean(svg, prefix="")
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("xmlns:xlink", "http://www.w3.org/1999/xlink")
    root.set("stroke-linejoin", "round")
    for element in root.iter():
        if "href" in element.attrib:
            element.set("xlink:href", element.attrib.pop("href"))
        if element.tag == "text":
            # Readers without DejaVu take their own face.
            element.set("font-family", "DejaVu Sans, Verdana, sans-serif")
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def inline(svg: str, *, prefix: str, label: str, variables: Mapping[str, str]) -> str:
    """A piece of an HTML page.

    Args:
        svg: What Matplotlib wrote.
        prefix: Put before its identifiers, so that they are unique on the page.
        label: What it shows, for readers who do not see it; empty if it is decoration.
        variables: From a colour (``#rrggbb``) to the CSS variable that takes its place.
    """
    root = _clean(svg, prefix=prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    if label:
        root.set("role", "img")
        root.set("aria-label", label)
    else:
        root.set("aria-hidden", "true")

    def variable(match: re.Match[str]) -> str:
        found = variables.get(match[0])
        return f"var({found})" if found else match[0]

    for element in root.iter():
        if "style" in element.attrib:
            element.set("style", _COLOR.sub(variable, element.attrib["style"]))
        if element.tag == "text" and "fill" not in element.get("style", ""):
            element.set("fill", "currentColor")
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def _clean(svg: str, *, prefix: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    used = set(_REFERENCE.findall(svg)) | set(re.findall(r'href="#([^"]+)"', svg))
    names = {name: f"{prefix}{i}" for i, name in enumerate(sorted(used, key=svg.index))}
    _drop(root)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.text = (element.text or "").strip() or None
        element.tail = None
        _attributes(element, names)
    return root


def _drop(parent: ElementTree.Element) -> None:
    """Take out metadata, style sheets (they would apply to the page), and what is invisible."""
    for child in list(parent):
        name = child.tag.removeprefix(_SVG)
        hidden = name == "path" and child.get("style") == "fill: none"
        if name in ("metadata", "style") or hidden:
            parent.remove(child)
            continue
        _drop(child)
        if name in ("g", "defs") and not len(child):
            parent.remove(child)


def _attributes(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    old = dict(element.attrib)
    element.attrib.clear()
    for key, value in old.items():
        if key == "id":
            if value in names:
                element.set("id", names[value])
        elif key == _HREF:
            element.set("href", f"#{names[value[1:]]}")
        elif key == "clip-path":
            element.set(key, _REFERENCE.sub(lambda m: f"url(#{names[m[1]]})", value))
        elif key == "style":
            element.set(key, _FONT.sub("", value).strip().rstrip(";"))
        elif key == "d":
            element.set(key, " ".join(_round(value).split()))
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key in ("x", "y", "width", "height", "transform"):
            element.set(key, _round(value))
        else:
            element.set(key, value)


def _round(text: str) -> str:
    """Coordinates to a hundredth of a point, which nobody sees.

    >>> _round("M 1.23456 -0.001 L 3.0 40")
    'M 1.23 0 L 3 40'
    """

    def short(match: re.Match[str]) -> str:
        value = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
        return "0" if value in ("-0", "") else value

    return _NUMBER.sub(short, text)
