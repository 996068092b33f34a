# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Films of a policy: episodes in Gymnasium's own environment, drawn without a screen."""

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
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import missing_extra
from gensmooth.rl.environments.gymnasium import make_environment, read_actions
from gensmooth.rl.policy_file import TrainedPolicy, as_policy
from gensmooth.rl.rollouts import test_rngs
from gensmooth.streams import check_seed

_INSTALL = "On Debian and Ubuntu: apt-get install libosmesa6"
_KINDS = (".mp4", ".gif")
_EVERY = 5.0  # seconds between lines of progress where there is no terminal


class Film(NamedTuple):
    """A film that was made.

    Attributes:
        path: The file.
        frames: How many frames it has.
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
    """Film a policy, to ``.mp4`` or ``.gif``.

    Episodes start as those of :func:`evaluate` with the same seed.

    Args:
        policy: A policy, its file, or a training's folder (then the best policy); or "zoo:hopper",
            one of the trained policies that come with the package.
        path: The film.
        episodes: How many episodes.
        seed: The seed of the starts.
        max_steps: Show at most this many steps per episode.
        skip: Draw only every ``skip``-th step, at the same speed: smaller files.
        progress: Whether to show how many frames are drawn; by default only on a terminal.
        trust: As in :func:`~gensmooth.rl.evaluation.evaluate`.

    Raises:
        OSError: When the film cannot be written; found before anything is drawn.
        ImportError: When something to draw with is missing.
    """
    file = checks.path("path", path)
    if file.suffix.lower() not in _KINDS:
        kinds = " or ".join(_KINDS)
        raise ValueError(f"The `path` of the film must be a {kinds} file, but is {file.name!r}.")
    episodes, skip = checks.count("episodes", episodes), checks.count("skip", skip)
    max_steps = checks.optional(checks.count, "max_steps", max_steps)
    checks.optional(checks.flag, "progress", progress)
    trust, seed = checks.flag("trust", trust), check_seed(seed)
    given = as_policy(policy)
    catalogue.check_trusted(given.environment, trust=trust)
    _check_writable(file)
    use_software_rendering()
    simulator = catalogue.make(given.environment)
    info = simulator.info
    environment = make_drawable(catalogue.reference(given.environment))
    actions = read_actions(info.name, environment.action_space, raw=info.fast)
    fps = float(environment.metadata.get("render_fps") or 30)
    steps = min(info.horizon, max_steps or info.horizon)
    report = _reporter(episodes * (1 + steps // skip), progress)
    returns: list[float] = []

    def frames() -> Iterator[Any]:
        for rng in test_rngs(seed, 0, episodes):
            if info.fast:  # its starts are drawn by the environment's own law
                environment.unwrapped.np_random = rng
                seen, _ = environment.reset()
            else:
                seen, _ = environment.reset(seed=int(simulator.starts([rng])[0, 0]))
            yield _frame(environment)
            total = 0.0
            for step in range(1, steps + 1):
                action = actions.choose(given(seen))
                seen, reward, terminated, truncated, _ = environment.step(action)
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
    """Choose how MuJoCo draws where there is no screen, unless ``MUJOCO_GL`` says how.

    Raises:
        ImportError: When there is neither a screen nor a library to draw without one.
    """
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it would greet on standard output
    if os.environ.get("MUJOCO_GL") or sys.platform != "linux" or os.environ.get("DISPLAY"):
        return
    for backend, library in (("osmesa", "OSMesa"), ("egl", "EGL")):
        if ctypes.util.find_library(library):
            os.environ["MUJOCO_GL"] = backend
            return
    raise ImportError(
        f"There is no screen, and no library to draw without one (libOSMesa or libEGL). {_INSTALL}"
    )


def make_drawable(name: str) -> Any:
    """Gymnasium's environment, ready to draw frames; the camera follows a robot that runs."""
    try:
        environment = make_environment(name, render_mode="rgb_array")
    except TypeError as error:  # it takes no `render_mode`
        raise _draws_nothing(name) from error
    model: Any = getattr(environment.unwrapped, "model", None)
    cameras = [model.camera(i).name for i in range(getattr(model, "ncam", 0))]
    if "track" not in cameras:
        return environment
    environment.close()  # by default, Gymnasium's camera stays where the robot started
    return make_environment(name, render_mode="rgb_array", camera_name="track")


def _draws_nothing(name: str) -> RuntimeError:
    return RuntimeError(f"{name} draws no frames: it has no render_mode 'rgb_array'.")


def _frame(environment: Any) -> Any:
    try:
        frame = environment.render()
    except Exception as error:
        if type(error).__name__ == "DependencyNotInstalled":
            raise ImportError(
                f"The frames of {environment.spec.id} need a package that is not installed: {error}"
            ) from None
        how = os.environ.get("MUJOCO_GL", "a window")
        raise RuntimeError(
            f"Drawing failed, with {how} ({type(error).__name__}: {error}). {_INSTALL}, and set "
            "MUJOCO_GL=osmesa."
        ) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise _draws_nothing(environment.spec.id)
    return frame


def _check_writable(path: Path) -> None:
    """Find out before drawing whether the film can be written; an existing file is left alone."""
    existed = path.exists()
    try:
        path.open("ab").close()
    except OSError as error:
        raise _unwritable(path, error) from None
    if not existed:
        path.unlink()


def _unwritable(path: Path, error: OSError) -> OSError:
    # What imageio raises goes on with ffmpeg's whole command line.
    reason = error.strerror or str(error).partition("\n")[0]
    return OSError(f"The film {path} cannot be written: {reason}.")


def _write(
    path: Path, frames: Iterator[Any], fps: float, report: Callable[[int, bool], None]
) -> int:
    try:
        imageio: Any = import_module("imageio.v2")
        if path.suffix.lower() == ".mp4":
            import_module("imageio_ffmpeg")
    except ImportError as error:
        raise missing_extra(error) from None
    if path.suffix.lower() == ".gif":  # durations are in milliseconds, and whole hundredths
        options: dict[str, Any] = {"duration": max(1000 / fps, 20.0), "loop": 0}
    else:  # any size of frame, and what every player can play
        options = {"fps": fps, "macro_block_size": None, "pixelformat": "yuv420p"}
        options["output_params"] = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]
    first = next(frames)  # if nothing can be drawn, there is no file either
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
    """Tells how many frames are drawn: on a terminal in one line, elsewhere every few seconds."""
    terminal = getattr(sys.stderr, "isatty", bool)()
    if not (terminal if shown is None else shown):
        return lambda number, done: None  # noqa: ARG005
    told = time.monotonic()

    def report(number: int, done: bool) -> None:
        nonlocal told
        now = time.monotonic()
        if not done and now - told < (0.2 if terminal else _EVERY):
            return
        told = now
        words = f"Drawn: {number} frames" + ("" if done else f" of at most {most}")
        print(
            f"\r{words}\x1b[K" if terminal else words,
            end="\n" if done or not terminal else "",
            file=sys.stderr,
            flush=True,
        )

    return report
