"""The documentation as a site: `make docs` builds it, without a network, into docs/_build/html."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_site"), str(HERE.parent / "src")]

from gallery import ORDER  # noqa: E402 - these two are found through the line above

from gensmooth import __version__  # noqa: E402

project = "gensmooth"
author = "The gensmooth developers"
copyright = author
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "mathematics",  # the last three are ours, in _site
    "pages",
    "api_pages",
]
exclude_patterns = ["_build", "_site", "gallery/**/*.ipynb", "gallery/**/*.py", "**/*.codeobj.json"]
nitpicky = False

# Pages are Markdown that reads well without the site too.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist", "attrs_block"]
myst_heading_anchors = 4
myst_dmath_double_inline = True

# The reference: public names, from their docstrings (Google style).
default_role = "py:obj"  # `name` in a docstring links where it can
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"show-inheritance": False}
python_use_unqualified_type_names = True
toc_object_entries = False  # pages list their names; in each sidebar they cost a third of the time
maximum_signature_line_length = 80
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

# Nothing is fetched: the theme brings its own files, formulas are MathML, which browsers draw.
html_theme = "furo"
html_title = "gensmooth"
html_math_renderer = "mathml"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
templates_path: list[str] = []
pygments_style = "tango"
pygments_dark_style = "monokai"

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": rf"(?:^|/)(?!(?:{'|'.join(ORDER)})\.py$)[^/]+\.py$",
    "within_subsection_order": "gallery.Order",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1e9,
    "reset_modules_order": "both",
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "parallel": True,  # as many at once as `sphinx -j` says
    "show_signature": False,
    "write_computation_times": False,
    "image_srcset": ["2x"],
    "thumbnail_size": (640, 400),
    "copyfile_regex": r".*\.ipynb$",
}
