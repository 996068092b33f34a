"""From study outcomes to a page: figures, tables and claims.

Needs the extra ``report`` (Matplotlib and Jinja2), which is imported when a report is written.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from gensmooth.studies.spec import Outcome

__all__ = ["write_report"]


def write_report(
    outcomes: Sequence[Outcome],
    out: Path,
    *,
    command: str,
    paper_times: Mapping[int, Mapping[str, float]] | None = None,
) -> Path:
    """Write ``report.html``, and its figures and tables as files, into a folder.

    Args:
        outcomes: The studies, in the order of the page.
        out: The folder; it is made if need be, and files of an earlier report are replaced.
        command: What a reader types to repeat it.
        paper_times: The paper's times to sample directions, ``[L][method]`` in any one unit, to
            be drawn beside ours.

    Returns:
        The path of the page.

    Raises:
        ImportError: If Matplotlib or Jinja2 is missing.
    """
    try:
        from gensmooth.report.page import write_page
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("matplotlib", "jinja2"):
            raise
        raise ImportError(
            f"The report needs {error.name}: pip install 'gensmooth[report]'", name=error.name
        ) from error
    return write_page(outcomes, Path(out), command=command, paper_times=paper_times or {})
