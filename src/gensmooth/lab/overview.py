"""Writes the page of any folder: a run, a training, a comparison, a sweep, or studies."""

import time
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from gensmooth import checks
from gensmooth.lab.paper.reproduce import ASKED, report_again
from gensmooth.lab.run_page.page import RESULT, write_result, write_run, write_torch_log
from gensmooth.lab.run_page.recorded import naming_folder
from gensmooth.lab.trials import comparison_page, sweep_page, table
from gensmooth.runs import CheckpointError
from gensmooth.runs.files import open_file
from gensmooth.runs.folder import CONFIG

_RELOAD = 5.0  # seconds
_TORCH_LOG = b"gensmooth torch log"  # the first bytes of a gs.torch.Log


def overview(
    folder: str | PathLike[str],
    *,
    out: str | PathLike[str] | None = None,
    live: bool = False,
    every: float = _RELOAD,
) -> Path:
    """Write the page of a folder, or of the log of a torch optimiser.

    Args:
        folder: The ``folder`` of ``minimize``, ``train``, ``compare``, ``sweep`` or ``reproduce``,
            a folder in which ``gensmooth minimize`` wrote its result, or the file of a
            ``gs.torch.Log``.
        out: The folder for the page; by default the same one.
        live: Write the page again and again until the run ends or you press Ctrl-C. A browser
            reloads it by itself.
        every: Seconds between two pages.

    Returns:
        The path of the page.

    Raises:
        ValueError: If the folder holds none of these.
    """
    where = checks.path("folder", folder)
    target = checks.optional(checks.path, "out", out)
    every = checks.positive("every", every)
    write = _writer(where, target)
    if not checks.flag("live", live):
        return write(None)[0]
    printed = False
    while True:
        path, ended = write(every)
        if not printed:
            print(f"page: {path}", flush=True)
            printed = True
        if ended:
            return write(None)[0]
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            return write(None)[0]


def _writer(where: Path, out: Path | None) -> Callable[[float | None], tuple[Path, bool]]:
    """Return a function that writes the page, and returns whether all runs have ended."""
    if where.is_file():
        with open_file(where, follow=True) as file:
            if file.read(len(_TORCH_LOG)) == _TORCH_LOG:
                return partial(write_torch_log, where, out)
    if not where.is_dir():
        raise ValueError(
            f"{where} is not a folder of a run, a comparison, a sweep or a study, and no log of a "
            "torch optimiser."
        )
    if (where / table.FILE).exists():
        return partial(_comparison, where, out or where)
    if (where / CONFIG).exists():
        return partial(write_run, where, out)
    if (where / ASKED).exists():
        return partial(_studies, where, out)
    if (where / RESULT).exists():
        return partial(write_result, where, out)
    if list(where.glob("*/study.json")):
        raise ValueError(
            f"{where} holds runs of studies, but no {ASKED}. To write their page: "
            f"gensmooth reproduce STUDY --no-run --folder {where}"
        )
    raise ValueError(
        f"{where} holds no run ({CONFIG} or {RESULT}), no comparison or sweep ({table.FILE}) and "
        f"no study ({ASKED})."
    )


def _comparison(where: Path, out: Path, reload: float | None) -> tuple[Path, bool]:
    """Write the page of a comparison or a sweep from the runs that are there."""
    trials, fetch = table.TrialTable.read(where), table.stored(where)
    with naming_folder(where):
        specs = trials.specs()
        ended = len(fetch(specs, "")) == len(specs)
        if trials.kind == "sweep":
            conclusion = sweep_page.conclude(trials, fetch)
            return sweep_page.write_sweep(conclusion, out, reload=reload), ended
        ranking = comparison_page.conclude(trials, fetch)
        return comparison_page.write_comparison(ranking, out, reload=reload), ended


def _studies(where: Path, out: Path | None, reload: float | None) -> tuple[Path, bool]:
    """Write the page of studies from the runs that are there; it does not reload."""
    del reload
    try:
        return report_again(where, out), True
    except OSError as error:
        raise CheckpointError(where, f"cannot be read or written: {error}.") from error
