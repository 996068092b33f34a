"""Writes all pages: figures, tables and verdicts as sections of one HTML file.

It does not know about studies, comparisons or runs: they pass it sections. It needs the extra
``report`` (Matplotlib and Jinja2), which is imported when a page is written.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gensmooth.runs.files import CheckpointError

if TYPE_CHECKING:
    from gensmooth.lab.report.page import Front, Section

__all__ = ["naming_the_extra", "write_report"]


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
        sections: The sections, in the order of the page.
        out: The folder; it is created if missing, and files of an earlier report are replaced.
        title: The page's heading.
        lede: A paragraph below it.
        command: The command that repeats it.
        front: The beginning of the page: its message, its best figure, its symbols.
        reload: Seconds after which a browser reloads the page, while a run is in progress.

    Returns:
        The path of the page.

    Raises:
        ImportError: If Matplotlib or Jinja2 is missing.
        CheckpointError: If a file cannot be written, or a link is in the way of a folder.
    """
    with naming_the_extra():
        from gensmooth.lab.report.page import write_page
    try:
        return write_page(
            sections, Path(out), title=title, lede=lede, command=command, front=front, reload=reload
        )
    except OSError as error:
        file = Path(error.filename) if isinstance(error.filename, str) else Path(out)
        raise CheckpointError(file, f"cannot be written: {error.strerror or error}.") from error


@contextmanager
def naming_the_extra() -> Generator[None]:
    """If Matplotlib or Jinja2 is missing, raise an error with the pip command."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "jinja2"):
            raise
        raise ImportError(
            f"The report needs {error.name}: pip install 'gensmooth[report]'", name=error.name
        ) from error
