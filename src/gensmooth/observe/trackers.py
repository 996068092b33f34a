"""Experiment trackers: TensorBoard, Weights & Biases, MLflow. Each needs its extra."""

import math
import time
from collections.abc import Mapping
from importlib import import_module
from os import PathLike, fspath
from typing import Any, final

from gensmooth.observe.observers import Progress, Start, flat_settings, scalars

_FLUSH_SECONDS = 1.0
_LONGEST = 500  # characters of a setting
_TAG = "gensmooth.run"


@final
class TensorBoard:
    """Writes scalars for TensorBoard to a folder; the x axis is the step.

    A resumed run writes to the same folder. TensorBoard then hides the steps that the interrupted
    run had logged after its last checkpoint.

    Args:
        folder: The folder for the event files.
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self._module = _need("tensorboardX", "tensorboard")
        self._folder = fspath(folder)
        self._writer: Any = None

    def start(self, start: Start) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        resumed = start.step or None
        self._writer = self._module.SummaryWriter(
            self._folder,
            purge_step=resumed,
            filename_suffix=f".{start.step:012}",  # names contain only whole seconds otherwise
            flush_secs=5,
        )
        if not resumed:
            rows = [f"    {name}: {value}" for name, value in flat_settings(start.config).items()]
            self._writer.add_text("config", "\n".join(rows), 0)

    def step(self, progress: Progress) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        for name, value in scalars(progress).items():
            self._writer.add_scalar(name, value, progress.info.step)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        self._writer.add_text("status", str(summary["message"]), int(summary["nit"]))
        self._writer.close()


@final
class WandB:
    """Logs to Weights & Biases. A resumed run continues the same run there.

    Args:
        project: The project.
        name: The run's name; by default W&B chooses one.
        mode: ``"online"``, ``"offline"`` or ``"disabled"``; by default the value of ``WANDB_MODE``.
        folder: The folder for its files; by default the working directory.
    """

    def __init__(
        self,
        project: str | None = None,
        *,
        name: str | None = None,
        mode: str | None = None,
        folder: str | PathLike[str] | None = None,
    ) -> None:
        self._module = _need("wandb", "wandb")
        self._options = {
            "project": project,
            "name": name,
            "mode": mode,
            "dir": None if folder is None else fspath(folder),
        }
        self._run: Any = None

    def start(self, start: Start) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        config = flat_settings(start.config)
        self._run = self._module.init(
            **self._options, id=start.run, resume="allow", config=config, reinit="create_new"
        )

    def step(self, progress: Progress) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        self._run.log(scalars(progress), step=progress.info.step)

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        self._run.summary.update(dict(summary))
        self._run.finish(exit_code=0 if summary["success"] else 1)


@final
class MLflow:
    """Logs to MLflow. A resumed run continues the same run there.

    Args:
        uri: The tracking server or store; by default the value of ``MLFLOW_TRACKING_URI``.
        experiment: The experiment's name.
        name: The run's name; by default MLflow chooses one.
    """

    def __init__(
        self, uri: str | None = None, *, experiment: str = "gensmooth", name: str | None = None
    ) -> None:
        self._module = _need("mlflow", "mlflow")
        self._client: Any = self._module.MlflowClient(tracking_uri=uri)
        self._experiment = experiment
        self._name = name
        self._id = ""
        self._waiting: list[Any] = []
        self._flushed = 0.0

    def start(self, start: Start) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        existing = self._client.get_experiment_by_name(self._experiment)
        experiment = (
            self._client.create_experiment(self._experiment)
            if existing is None
            else existing.experiment_id
        )
        known = self._client.search_runs([experiment], f"tags.`{_TAG}` = '{start.run}'")
        if known:
            self._id = known[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        run = self._client.create_run(experiment, run_name=self._name, tags={_TAG: start.run})
        self._id = run.info.run_id
        param = self._module.entities.Param
        values = flat_settings(start.config).items()
        params = [param(name, str(value)[:_LONGEST]) for name, value in values]
        self._client.log_batch(self._id, params=params)

    def step(self, progress: Progress) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        metric, now = self._module.entities.Metric, time.time()
        step, stamp = progress.info.step, int(now * 1000)
        self._waiting += [
            metric(name, value, stamp, step)
            for name, value in scalars(progress).items()
            if math.isfinite(value)
        ]
        if now - self._flushed >= _FLUSH_SECONDS or len(self._waiting) > 900:
            self._flush()
            self._flushed = now

    def end(self, summary: Mapping[str, Any]) -> None:
        """See :class:`~gensmooth.observe.Tracker`."""
        self._flush()
        self._client.set_tag(self._id, "reason", str(summary["reason"]))
        for name in ("fun", "best_fun"):
            if math.isfinite(summary[name]):
                self._client.log_metric(self._id, f"final/{name}", summary[name])
        ended = "FINISHED" if summary["success"] else "FAILED"
        stopped = summary["reason"] in ("interrupted", "terminated")
        self._client.set_terminated(self._id, "KILLED" if stopped else ended)

    def _flush(self) -> None:
        for first in range(0, len(self._waiting), 1000):
            self._client.log_batch(self._id, metrics=self._waiting[first : first + 1000])
        self._waiting = []


def _need(module: str, extra: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This tracker needs {module}: pip install 'gensmooth[{extra}]'"
        ) from error
