"""A report as a library: figures, tables and verdicts of some studies on one page.

It knows no study: it is given sections, and draws what is in them. Needs the extra ``report``
(Matplotlib and Jinja2), which is imported when a report is written.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gensmooth.report.page import Front, Section

__all__ = ["named_extra", "write_report"]


def write_report(
    sections: "Sequence[Section]",
    out: Path,
    *,
    title: str,
    lede: str,
    command: str,
    front: "Front | None" = None,
    reload: float | None = None,
) -> Path:
    """Write ``report.html``, and its figures and tables as files, into a folder.

    Args:
        sections: The studies, in the order of the page.
        out: The folder; it is made if need be, and files of an earlier report are replaced.
        title: The page's heading.
        lede: A paragraph below it.
        command: What a reader types to repeat it.
        front: What the page begins with: its message, its best figure, its symbols.
        reload: Seconds after which a browser loads the page again, of a run that goes on.

    Returns:
        The path of the page.

    Raises:
        ImportError: If Matplotlib or Jinja2 is missing.
    """
    with named_extra():
        from gensmooth.report.page import write_page
    return write_page(
        sections,
        Path(out),
        title=title,
        lede=lede,
        command=command,
        front=front,
        reload=reload,
    )


@contextmanager
def named_extra() -> Generator[None]:
    """Where Matplotlib or Jinja2 is missing, say what to install."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "jinja2"):
            raise
        raise ImportError(
            f"The report needs {error.name}: pip install 'gensmooth[report]'", name=error.name
        ) from error
