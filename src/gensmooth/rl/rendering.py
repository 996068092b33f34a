# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Films of a policy: episodes in Gymnasium's own environment, drawn without a screen."""

import ctypes.util
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.base import missing_extra
from gensmooth.rl.environments.gymnasium import make_environment, read_actions
from gensmooth.rl.policy_file import TrainedPolicy, load_policy
from gensmooth.rl.rollouts import test_rngs
from gensmooth.streams import check_seed

_INSTALL = "On Debian and Ubuntu: apt-get install libosmesa6"
_KINDS = (".mp4", ".gif")


class Film(NamedTuple):
    """What was filmed.

    Attributes:
        path: The file.
        frames: How many frames.
        fps: Frames a second.
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
) -> Film:
    """Film a policy, to ``.mp4`` or ``.gif``.

    Episodes start as those of :func:`evaluate` with the same seed.

    Args:
        policy: A policy, its file, or a training's folder (then the best policy).
        path: The film.
        episodes: How many.
        seed: Of the starts.
        max_steps: Steps of an episode that are shown.
        skip: Draw every so many steps, at the same speed: smaller files.
    """
    file = Path(path)
    if file.suffix.lower() not in _KINDS:
        raise ValueError(f"The film must be a {' or '.join(_KINDS)} file, but is {file.name!r}.")
    for name, value in (("episodes", episodes), ("skip", skip), ("max_steps", max_steps)):
        if value is not None and value < 1:
            raise ValueError(f"`{name}` must be at least 1, but is {value}.")
    seed = check_seed(seed)
    given = policy if isinstance(policy, TrainedPolicy) else load_policy(policy)
    use_software_rendering()
    simulator = catalogue.make(given.environment)
    info = simulator.info
    environment = drawn(catalogue.reference(given.environment))
    actions = read_actions(info.name, environment.action_space, raw=info.fast)
    fps = float(environment.metadata.get("render_fps") or 30)
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
            for step in range(1, min(info.horizon, max_steps or info.horizon) + 1):
                seen, reward, terminated, truncated, _ = environment.step(actions.play(given(seen)))
                total += float(reward)
                if step % skip == 0:
                    yield _frame(environment)
                if terminated or truncated:
                    break
            returns.append(total)

    try:
        number = _write(file, frames(), fps / skip)
    finally:
        environment.close()
    return Film(file, number, fps / skip, returns)


def use_software_rendering() -> None:
    """Choose how MuJoCo draws where there is no screen, unless ``MUJOCO_GL`` says it.

    Raises:
        ImportError: When there is neither a screen nor a library to draw without one.
    """
    if os.environ.get("MUJOCO_GL") or sys.platform != "linux" or os.environ.get("DISPLAY"):
        return
    for backend, library in (("osmesa", "OSMesa"), ("egl", "EGL")):
        if ctypes.util.find_library(library):
            os.environ["MUJOCO_GL"] = backend
            return
    raise ImportError(
        f"There is no screen, and no library to draw without one (libOSMesa or libEGL). {_INSTALL}"
    )


def drawn(name: str) -> Any:
    """Gymnasium's environment, ready to draw frames; a robot that runs is followed."""
    try:
        environment = make_environment(name, render_mode="rgb_array")
    except TypeError as error:  # its maker takes no `render_mode`
        raise _draws_nothing(name) from error
    model: Any = getattr(environment.unwrapped, "model", None)
    cameras = [model.camera(i).name for i in range(getattr(model, "ncam", 0))]
    if "track" not in cameras:
        return environment
    environment.close()  # by itself, Gymnasium stays where the robot started
    return make_environment(name, render_mode="rgb_array", camera_name="track")


def _draws_nothing(name: str) -> RuntimeError:
    return RuntimeError(f"{name} draws no frames: it has no render_mode 'rgb_array'.")


def _frame(environment: Any) -> Any:
    try:
        frame = environment.render()
    except Exception as error:
        if type(error).__name__ == "DependencyNotInstalled":
            raise ImportError(f"This environment's frames need a package: {error}") from None
        how = os.environ.get("MUJOCO_GL", "a window")
        raise RuntimeError(
            f"Drawing failed, with {how} ({type(error).__name__}: {error}). {_INSTALL}, and set "
            "MUJOCO_GL=osmesa."
        ) from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise _draws_nothing(environment.spec.id)
    return frame


def _write(path: Path, frames: Iterator[Any], fps: float) -> int:
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
    number = 0
    with imageio.get_writer(path, **options) as writer:
        for frame in frames:
            writer.append_data(np.ascontiguousarray(frame))
            number += 1
    return number
