# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Videos of a policy: episodes in Gymnasium's own environment, rendered without a display."""

import ctypes.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gensmooth import checks
from gensmooth.physics.extras import missing_extra
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.gymnasium import make_environment, read_actions
from gensmooth.rl.policy_file import TrainedPolicy, as_policy
from gensmooth.rl.rollouts import test_rngs
from gensmooth.runs.files import check_writable
from gensmooth.streams import check_seed

_INSTALL = "On Debian and Ubuntu: apt-get install libosmesa6"
_KINDS = (".mp4", ".gif")
_EVERY = 5.0  # seconds between lines of progress without a terminal


class Film(NamedTuple):
    """A rendered video.

    Attributes:
        path: The file.
        frames: The number of frames.
        fps: Frames per second.
        returns: The return of each episode.
    """

    path: Path
    frames: int
    fps: float
    returns: list[float]


def render(
    policy: TrainedPolicy | str | PathLike[str],
    path: str | PathLike[str],
    *,
    episodes: int = 1,
    seed: int = 0,
    max_steps: int | None = None,
    skip: int = 1,
    progress: bool | None = None,
    trust: bool = False,
) -> Film:
    """Render a video of a policy as ``.mp4`` or ``.gif``.

    Episodes have the same initial states as those of :func:`evaluate` with the same seed.

    Args:
        policy: A policy, its file, a training's folder (which means its best policy), or
            ``"zoo:hopper"``, one of the trained policies that come with the package.
        path: The video file.
        episodes: The number of episodes.
        seed: The seed of the initial states.
        max_steps: The maximum number of steps shown per episode.
        skip: Render only every ``skip``-th step, at the same speed, for smaller files.
        progress: Whether to show the number of rendered frames; by default only on a terminal.
        trust: As in :func:`~gensmooth.rl.evaluation.evaluate`.

    Raises:
        OSError: If the video cannot be written; checked before rendering where possible.
        ImportError: If a library for rendering is missing.
    """
    file = checks.path("path", path)
    if file.suffix.lower() not in _KINDS:
        kinds = " or ".join(_KINDS)
        raise ValueError(f"`path` must be a {kinds} file, but is {file.name!r}.")
    episodes, skip = checks.count("episodes", episodes), checks.count("skip", skip)
    max_steps = checks.optional(checks.count, "max_steps", max_steps)
    checks.optional(checks.flag, "progress", progress)
    trust, seed = checks.flag("trust", trust), check_seed(seed)
    trained = as_policy(policy)
    catalogue.check_trusted(trained.environment, trust=trust)
    _check_writable(file)
    use_software_rendering()
    simulator = catalogue.make(trained.environment)
    info = simulator.info
    environment = make_drawable(catalogue.reference(trained.environment))
    actions = read_actions(info.name, environment.action_space, raw=info.fast)
    fps = float(environment.metadata.get("render_fps") or 30)
    steps = min(info.horizon, max_steps or info.horizon)
    report = _reporter(episodes * (1 + steps // skip), progress)
    returns: list[float] = []

    def frames() -> Iterator[Any]:
        for rng in test_rngs(seed, 0, episodes):
            if info.fast:  # its initial states follow the environment's own distribution
                environment.unwrapped.np_random = rng
                observation, _ = environment.reset()
            else:
                observation, _ = environment.reset(seed=int(simulator.starts([rng])[0, 0]))
            yield _frame(environment)
            total = 0.0
            for step in range(1, steps + 1):
                action = actions.choose(trained(observation))
                observation, reward, terminated, truncated, _ = environment.step(action)
                total += float(reward)
                if step % skip == 0:
                    yield _frame(environment)
                if terminated or truncated:
                    break
            returns.append(total)

    try:
        number = _write(file, frames(), fps / skip, report)
    finally:
        environment.close()
    return Film(file, number, fps / skip, returns)


def use_software_rendering() -> None:
    """Choose MuJoCo's renderer if there is no display, unless ``MUJOCO_GL`` is set.

    Raises:
        ImportError: If there is neither a display nor a library for off-screen rendering.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would print to standard output
    if os.environ.get("MUJOCO_GL") or sys.platform != "linux" or os.environ.get("DISPLAY"):
        return
    for backend, library in (("osmesa", "OSMesa"), ("egl", "EGL")):
        if ctypes.util.find_library(library):
            os.environ["MUJOCO_GL"] = backend
            return
    raise ImportError(
        "There is no display and no library for off-screen rendering (libOSMesa or libEGL). "
        f"{_INSTALL}"
    )


def make_drawable(name: str) -> Any:
    """Create Gymnasium's environment for rendering, with a camera that tracks a moving robot."""
    try:
        environment = make_environment(name, render_mode="rgb_array")
    except TypeError as error:  # it does not accept `render_mode`
        raise _not_drawable(name) from error
    model: Any = getattr(environment.unwrapped, "model", None)
    cameras = [model.camera(i).name for i in range(getattr(model, "ncam", 0))]
    if "track" not in cameras:
        return environment
    environment.close()  # Gymnasium's default camera stays where the robot started
    return make_environment(name, render_mode="rgb_array", camera_name="track")


def _not_drawable(name: str) -> RuntimeError:
    return RuntimeError(f"{name} cannot be rendered: it does not support render_mode='rgb_array'.")


def _frame(environment: Any) -> Any:
    try:
        frame = environment.render()
    except Exception as error:
        if type(error).__name__ == "DependencyNotInstalled":
            raise ImportError(
                f"Rendering {environment.spec.id} needs a package that is not installed: {error}"
            ) from None
        backend = os.environ.get("MUJOCO_GL", "unset")
        raise RuntimeError(
            f"Rendering failed with {type(error).__name__}: {error} (MUJOCO_GL is {backend}). If "
            f"the environment uses MuJoCo, try MUJOCO_GL=osmesa. {_INSTALL}"
        ) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise _not_drawable(environment.spec.id)
    return frame


def _check_writable(path: Path) -> None:
    """Raise an error if the file cannot be written; an existing file is not changed."""
    try:
        check_writable(path)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> OSError:
    # imageio's message includes ffmpeg's whole command line on further lines.
    reason = error.strerror or str(error).partition("\n")[0]
    return OSError(f"The video {path} cannot be written: {reason}.")


def _write(
    path: Path, frames: Iterator[Any], fps: float, report: Callable[[int, bool], None]
) -> int:
    try:
        imageio: Any = import_module("imageio.v2")
        if path.suffix.lower() == ".mp4":
            import_module("imageio_ffmpeg")
    except ImportError as error:
        raise missing_extra(error) from None
    if path.suffix.lower() == ".gif":  # in milliseconds; players slow down below 20
        options: dict[str, Any] = {"duration": max(1000 / fps, 20.0), "loop": 0}
    else:  # accepts any frame size, and plays in every player
        options = {"fps": fps, "macro_block_size": None, "pixelformat": "yuv420p"}
        options["output_params"] = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
    first = next(frames)  # if rendering fails, no file is created
    number = 0
    with imageio.get_writer(path, **options) as writer:
        for frame in chain((first,), frames):
            try:
                writer.append_data(np.ascontiguousarray(frame))
            except OSError as error:
                raise _unwritable(path, error) from error
            number += 1
            report(number, False)
    report(number, True)
    return number


def _reporter(most: int, shown: bool | None) -> Callable[[int, bool], None]:
    """Return a progress reporter: one changing line on a terminal, else a line now and then."""
    terminal = getattr(sys.stderr, "isatty", bool)()
    if not (terminal if shown is None else shown):
        return lambda number, done: None  # noqa: ARG005
    last_report = time.monotonic()

    def report(number: int, done: bool) -> None:
        nonlocal last_report
        now = time.monotonic()
        if not done and now - last_report < (0.2 if terminal else _EVERY):
            return
        last_report = now
        line = f"Frames rendered: {number}" + ("" if done else f" of at most {most}")
        print(
            f"\r{line}\x1b[K" if terminal else line,
            end="\n" if done or not terminal else "",
            file=sys.stderr,
            flush=True,
        )

    return report
