# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
"""Our step beside MuJoCo's, term by term: where is the first difference?

A step is a chain of terms: positions, inertia, forces, constraints, accelerations, the next state,
and what the environment makes of it. :func:`compare` computes each term twice from the same state
and names the first one that differs by more than rounding, with the function that computes it.

Terms up to the constraints are the expressions of :mod:`gensmooth.physics.mechanics`, evaluated on
numbers. Terms from the solution of the constraints on come from the compiled function
(:mod:`gensmooth.physics.fused`), which runs on the processor, by Warp or, where Warp is not
installed, by the machine's C++ compiler. The environment's terms are its traced functions beside
the functions themselves.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from gensmooth import checks
from gensmooth.physics import registry
from gensmooth.physics.drivers import FusedPhysics, load_warp, sizes
from gensmooth.physics.environment import CompiledEnvironment
from gensmooth.physics.fused import integrators, outputs, solver
from gensmooth.physics.fused.source import FusedSource, fused
from gensmooth.physics.host_compiler import HostPhysics, find_compiler
from gensmooth.physics.mechanics import softness
from gensmooth.physics.mechanics.contacts import Contact, axes_of, contacts_of, jacobian, moving
from gensmooth.physics.mechanics.mechanism import Mechanism
from gensmooth.physics.mechanics.models import UnsupportedMechanismError
from gensmooth.physics.mechanics.placed import Placed, place
from gensmooth.physics.mujoco_calls import load_mujoco, physics, quiet
from gensmooth.physics.symbols import Slot, TraceError, value_of
from gensmooth.physics.tracing import DATA, Traced, trace

Array = NDArray[np.float64]
Values = dict[str, Array]

_FORMULA = 1e-10  # relative: terms that are formulas
_SOLUTION = 1e-8  # relative: terms that follow from MuJoCo's iterative solver
_EDGE = 1e-9  # from its margin: whether a constraint acts there is decided by rounding
_FRAMES = 5  # steps of MuJoCo between two states, for a model without an environment


@final
@dataclass(frozen=True)
class Term:
    """One term of a step.

    Attributes:
        name: Its name in MuJoCo's data, or in the environment.
        meaning: What it is.
        functions: The functions of ours that compute it.
        tolerance: The largest relative difference that counts as rounding.
    """

    name: str
    meaning: str
    functions: tuple[Callable[..., Any], ...]
    tolerance: float = _FORMULA

    @property
    def places(self) -> list[str]:
        """Where the functions are: file, line and name."""
        return [_place(inspect.unwrap(each)) for each in self.functions]


def _place(function: Callable[..., Any]) -> str:
    file = Path(inspect.getsourcefile(function) or "").relative_to(Path(__file__).parent)
    line = inspect.getsourcelines(function)[1]
    return f"gensmooth/physics/{file.as_posix()}:{line} ({function.__qualname__})"


_INTEGRATORS = (integrators.euler, integrators.runge_kutta)

# In the order of a step: a term depends on those before it.
_TERMS = (
    Term("xpos", "positions of bodies", (Placed.body_position,)),
    Term("xquat", "orientations of bodies", (Placed.body_quaternion,)),
    Term("geom_xpos", "positions of geoms", (Placed.geom_position,)),
    Term("site_xpos", "positions of sites", (Placed.site_position,)),
    Term("subtree_com", "centres of mass", (Placed.centre,)),
    Term("cinert", "inertia of each body", (Placed.body_inertia,)),
    Term("qM", "mass matrix", (Placed.mass_matrix,)),
    Term("cvel", "velocity of each body", (Placed.body_velocity,)),
    Term("qfrc_bias", "gravity, Coriolis and centrifugal forces", (Placed.bias,)),
    Term("qfrc_passive", "springs, dampers and fluid", (Placed.passive,)),
    Term("qfrc_actuator", "forces of the actuators", (Placed.actuation,)),
    Term("limits", "joint limits in reach: number and distance", (softness.limits,)),
    Term("contact.geom", "which geoms touch, and in how many points", (contacts_of,)),
    Term("contact.dist", "distances of contacts", (contacts_of,)),
    Term("contact.frame", "points and axes of contacts", (axes_of,)),
    Term("efc_J", "Jacobian of limits and contacts", (jacobian, softness.contact_law)),
    Term(
        "efc_D", "stiffness of limits and contacts", (softness.Softness.pull, softness.contact_law)
    ),
    Term(
        "efc_aref",
        "reference acceleration of limits and contacts",
        (softness.softness, softness.Softness.pull),
    ),
    Term(
        "qfrc_constraint",
        "forces of the constraints",
        (solver.write_solver, outputs.write_outputs),
        _SOLUTION,
    ),
    Term(
        "qacc",
        "accelerations in the step (of RK4, in its last stage)",
        (solver.write_solver,),
        _SOLUTION,
    ),
    Term("qvel", "velocities after the step", _INTEGRATORS, _SOLUTION),
    Term("qpos", "positions after the step", _INTEGRATORS, _SOLUTION),
    Term("cfrc_ext", "contact forces on bodies", (outputs.write_outputs,), _SOLUTION),
    Term("observation", "the environment's observation", (trace, value_of)),
    Term("reward", "the environment's reward", (trace, value_of)),
    Term("bonus", "the survival bonus in it", (trace, value_of)),
    Term("ended", "whether the episode ends", (trace, value_of)),
)
_COMPILED = ("qfrc_constraint", "qacc", "qvel", "qpos", "cfrc_ext")
_PAID = ("reward", "bonus", "ended")


@final
@dataclass(frozen=True)
class Difference:
    """How far a term is from MuJoCo's, over all states.

    Attributes:
        term: The term.
        largest: The largest difference, relative to the larger of 1 and the term's largest entry;
            infinite if the two have different sizes.
        step: The state in which it is largest, counted from 0.
        entry: The entry of the term, counted through the whole array.
        size: How many entries there were, over all states. 0: the term did not occur.
    """

    term: Term
    largest: float
    step: int
    entry: int
    size: int

    @property
    def agrees(self) -> bool:
        """Whether the difference is no more than rounding."""
        return self.largest <= self.term.tolerance


@final
@dataclass(frozen=True)
class StepComparison:
    """A model's step beside MuJoCo's.

    Attributes:
        name: The robot, or the model's file.
        steps: How many states were compared.
        differences: One for each term, in the order of a step.
        left_out: Why some terms were not computed; ``None`` if all were.
    """

    name: str
    steps: int
    differences: tuple[Difference, ...]
    left_out: str | None

    @property
    def first(self) -> Difference | None:
        """The first term that differs; ``None`` if all agree."""
        return next((each for each in self.differences if not each.agrees), None)


class _State(NamedTuple):
    """Positions, velocities and controls."""

    q: Array
    v: Array
    u: Array


def compare(model: str, *, steps: int = 50, seed: int = 0) -> StepComparison:
    """Compare a model's step with MuJoCo's, term by term.

    The robot moves by random actions. In each of its states, every term is computed twice.
    MuJoCo's solver runs to its limit of accuracy, by Newton's method, whatever the model asks for.

    Args:
        model: A robot, such as ``Hopper-v4`` or ``module:Name``, or a MuJoCo model: a file that
            ends in ``.xml``, of which the physics alone is compared.
        steps: How many states to compare.
        seed: The seed of the random start and actions.

    Raises:
        ValueError: When there is no such robot, or it has something that is not covered.
        ImportError: When MuJoCo is not installed.
    """
    return compare_changed(model, lambda _: None, steps=steps, seed=seed)


def compare_changed(
    model: str, change: Callable[[Any], object], *, steps: int = 50, seed: int = 0
) -> StepComparison:
    """The same with a changed copy of the model on our side: at which term does it show?

    Args:
        model: See :func:`compare`.
        change: Changes our copy of the ``MjModel``, in place.
        steps: See :func:`compare`.
        seed: See :func:`compare`.
    """
    steps, seed = checks.count("steps", steps), checks.count("seed", seed, least=0)
    environment = None if model.endswith(".xml") else registry.make(model)
    theirs = _exact(_read(Path(model)) if environment is None else environment.model())
    ours = copy.copy(theirs)
    change(ours)
    try:
        with quiet():
            mechanism = Mechanism(ours)
            law = None if environment is None else trace(environment, ours)
    except UnsupportedMechanismError as error:
        raise ValueError(
            f"{model} has {error}, which gensmooth.physics does not cover: MuJoCo computes it on "
            "the CPU and MuJoCo Warp on a GPU, so there is nothing to compare."
        ) from error
    except TraceError as error:
        raise ValueError(f"{model} cannot be traced: {error}.") from error
    tally = _Tally()
    rng = np.random.default_rng(seed)
    with quiet():
        if environment is None or law is None:
            states = list(_walk(theirs, steps, rng))
        else:
            states = list(_play(environment, law, theirs, steps, rng, tally))
        states = [state for state in states if not _is_on_edge(mechanism, state)]
        by_mujoco = [_by_mujoco(theirs, state) for state in states]
        for step, (state, wanted) in enumerate(zip(states, by_mujoco, strict=True)):
            tally.add(step, *_expressions(mechanism, theirs, state, wanted))
        left_out = _add_compiled(tally, mechanism, states, by_mujoco) if states else None
    return StepComparison(model, len(states), tally.differences(), left_out)


def _read(path: Path) -> Any:
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    try:
        return load_mujoco().MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise ValueError(f"{path} is not a MuJoCo model: {error}") from None


def _exact(model: Any) -> Any:
    """A copy of a model that MuJoCo solves as accurately as it can."""
    mujoco, found = load_mujoco(), copy.copy(model)
    found.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    found.opt.iterations = found.opt.ls_iterations = 200
    found.opt.tolerance, found.opt.ls_tolerance = 0.0, 1e-14
    found.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return found


class _Tally:
    """The largest difference of each term so far."""

    def __init__(self) -> None:
        self._worst: dict[str, tuple[float, int, int]] = {}
        self._sizes: dict[str, int] = {}

    def add(self, step: int, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
        """Compare the terms of a state that both have."""
        for name in ours.keys() & theirs.keys():
            one, two = (np.asarray(each[name], float).reshape(-1) for each in (ours, theirs))
            size, entry = np.inf, 0
            if one.shape == two.shape:
                apart = np.abs(one - two) / max(1.0, float(np.abs(two).max(initial=0.0)))
                apart = np.where(np.isnan(apart), np.where(one == two, 0.0, np.inf), apart)
                entry = int(apart.argmax()) if apart.size else 0
                size = float(apart.max(initial=0.0))
            self._sizes[name] = self._sizes.get(name, 0) + max(one.size, two.size)
            if size > self._worst.get(name, (-1.0, 0, 0))[0]:
                self._worst[name] = size, step, entry

    def differences(self) -> tuple[Difference, ...]:
        """Each term that was compared, in the order of a step."""
        return tuple(
            Difference(term, *self._worst[term.name], self._sizes[term.name])
            for term in _TERMS
            if term.name in self._worst
        )


# --- states, and the environment's terms ----------------------------------------------------------


def _walk(model: Any, steps: int, rng: np.random.Generator) -> Iterator[_State]:
    """States of a model that moves by random controls from where it starts."""
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    data.qvel[:] = 0.1 * rng.standard_normal(model.nv)
    for _ in range(steps):
        data.ctrl[:] = rng.uniform(-1.0, 1.0, model.nu)
        yield _State(*(np.array(each) for each in (data.qpos, data.qvel, data.ctrl)))
        mujoco.mj_step(model, data, _FRAMES)


def _play(
    environment: CompiledEnvironment,
    law: Traced,
    model: Any,
    steps: int,
    rng: np.random.Generator,
    tally: _Tally,
) -> Iterator[_State]:
    """States of an environment under random actions; compares what it observes and pays."""
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    state = environment.state(model, data, physics(model, data))
    seen, ended = np.empty(environment.observation_size), True
    for step in range(steps):
        if ended:
            mujoco.mj_resetData(model, data)
            environment.begin(state, environment.start(model, rng))
        before = _numbers(state, data)
        environment.observe(state, seen)
        action = rng.uniform(-1.0, 1.0, environment.action_size)
        paid = environment.step(state, action)
        after = _numbers(state, data)
        yield _State(before["qpos"], before["qvel"], after["ctrl"])

        def read(key: Slot, before: Values = before, after: Values = after, a: Any = action) -> Any:
            if key.array == "action":
                return float(a[key.entry])
            return float((after if key.moved else before)[key.array][key.entry])

        ours = {"observation": _evaluated(law.observe, "observation", read)}
        ours |= dict(zip(_PAID, _evaluated(law.step, "paid", read), strict=False))
        tally.add(step, ours, {"observation": seen, **dict(zip(_PAID, paid, strict=False))})
        ended = bool(paid[2])


def _numbers(state: Any, data: Any) -> Values:
    """All numbers that a law can read: MuJoCo's data, and what the environment remembers."""
    arrays = {name: getattr(data, name) for name in DATA}
    own = [
        each.reshape(-1)
        for each in state
        if isinstance(each, np.ndarray)
        and each.dtype.kind not in "iub"
        and not any(np.shares_memory(each, other) for other in arrays.values())
    ]
    found = {name: np.array(each).reshape(-1) for name, each in arrays.items()}
    return {**found, "memory": np.concatenate([np.zeros(0), *own])}


def _evaluated(law: dict[Slot, Any], array: str, read: Callable[[Slot], float]) -> list[float]:
    chosen = {key.entry: value for key, value in law.items() if key.array == array}
    return [float(value_of(chosen[entry], read)) for entry in range(len(chosen))]


# --- terms that are expressions -------------------------------------------------------------------


def _by_mujoco(model: Any, state: _State) -> Any:
    """MuJoCo's data of a state, before it moves."""
    mujoco = load_mujoco()
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = state
    mujoco.mj_forward(model, data)
    return data


def _is_on_edge(mechanism: Mechanism, state: _State) -> bool:
    """Whether rounding decides if a contact or a limit acts: then the two may differ at will."""
    placed = place(mechanism, state.q.tolist())
    gaps = [float(each.distance) - each.law.margin for each in contacts_of(placed)]
    for limit in mechanism.limits:
        at, margin = float(state.q[limit.position]), limit.law.margin
        gaps += [at - limit.low - margin, limit.high - at - margin]
    return any(abs(gap) < _EDGE for gap in gaps)


class _Row(NamedTuple):
    """A constraint: its row of the Jacobian, D, and the reference acceleration."""

    slope: Array
    stiffness: float
    reference: float


def _expressions(
    mechanism: Mechanism, model: Any, state: _State, data: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our terms in a state, and MuJoCo's."""
    placed, nv = place(mechanism, state.q.tolist()), mechanism.nv
    # Ours are along the roots' axes (see `Placed.along_roots`), MuJoCo's along the world's.
    turn = np.array([placed.along_roots(unit) for unit in np.eye(nv).tolist()], float).T
    q, v, u = state.q.tolist(), (turn @ state.v).tolist(), state.u.tolist()
    inertia = np.zeros((nv, nv))
    for (i, j), value in placed.mass_matrix().items():
        inertia[i, j] = inertia[j, i] = value
    bodies = range(model.nbody)
    spins = np.array([placed.body_quaternion(b) for b in bodies], float)
    spins *= np.where((spins * data.xquat).sum(axis=1) < 0.0, -1.0, 1.0)[:, None]  # q is -q
    ours: dict[str, Any] = {
        "xpos": [placed.body_position(b) for b in bodies],
        "xquat": spins,
        "geom_xpos": [placed.geom_position(g) for g in range(model.ngeom)],
        "site_xpos": [placed.site_position(s) for s in range(model.nsite)],
        "subtree_com": [placed.centre(b) for b in bodies],
        "cinert": [placed.body_inertia(b) for b in bodies],
        "cvel": [placed.body_velocity(b, v) for b in bodies],
        "qM": turn.T @ inertia @ turn,
        "qfrc_bias": turn.T @ np.array(placed.bias(v), float),
        "qfrc_passive": turn.T @ np.array(placed.passive(q, v), float),
        "qfrc_actuator": turn.T @ np.array(placed.actuation(q, v, u), float),
    }
    theirs = {name: getattr(data, name) for name in ours if name != "qM"}
    theirs["qM"] = _full_inertia(model, data)
    limits, limit_rows = _limits(mechanism, state, np.array(v))
    ours["limits"], theirs["limits"] = limits, data.efc_pos[: _first_contact_row(data)]
    touching = [each for each in contacts_of(placed) if each.distance < each.law.margin]
    ordered = _in_mujocos_order(placed, touching, data)
    theirs["contact.geom"] = sorted(_pair_number(model, c.geom1, c.geom2) for c in data.contact)
    ours["contact.geom"] = sorted(_pair_number(model, *c.geoms) for c in touching)
    if len(ordered) == data.ncon:
        rows = limit_rows
        frames: list[float] = []
        for contact in ordered:
            point, axes, more = _contact_rows(placed, contact, np.array(v))
            frames += [*point, *axes]
            rows = [*rows, *more]
        ours["contact.dist"] = [contact.distance for contact in ordered]
        theirs["contact.dist"] = [each.dist for each in data.contact]
        ours["contact.frame"] = frames
        theirs["contact.frame"] = [x for c in data.contact for x in (*c.pos, *_shown_axes(c))]
        count = data.nefc
        slopes = np.array([row.slope for row in rows]).reshape(-1, nv) @ turn
        ours["efc_J"] = slopes
        theirs["efc_J"] = np.array(data.efc_J).reshape(-1)[: count * nv]
        ours["efc_D"], theirs["efc_D"] = [row.stiffness for row in rows], data.efc_D[:count]
        ours["efc_aref"], theirs["efc_aref"] = [r.reference for r in rows], data.efc_aref[:count]
    return ours, theirs


def _full_inertia(model: Any, data: Any) -> Array:
    """MuJoCo's mass matrix, by the call that this version has."""
    mujoco, found = load_mujoco(), np.zeros((model.nv, model.nv))
    if hasattr(data, "qM"):
        mujoco.mj_fullM(model, found, data.qM)
    else:
        mujoco.mj_fullM(model, data, found)
    return found


def _first_contact_row(data: Any) -> int:
    """How many constraints are joint limits: MuJoCo lists them before contacts."""
    limit = load_mujoco().mjtConstraint.mjCNSTR_LIMIT_JOINT
    return int((np.array(data.efc_type[: data.nefc]) == int(limit)).sum())


def _row(law: softness.Softness, slope: Array, v: Array, distance: float) -> _Row:
    stiffness, pull = law.pull(distance)
    return _Row(slope, float(stiffness), -law.damping * float(slope @ v) - float(pull))


def _limits(mechanism: Mechanism, state: _State, v: Array) -> tuple[list[float], list[_Row]]:
    distances: list[float] = []
    rows: list[_Row] = []
    for limit in mechanism.limits:
        at = float(state.q[limit.position])
        for distance, sign in ((at - limit.low, 1.0), (limit.high - at, -1.0)):
            if distance < limit.law.margin:
                distances.append(distance)
                rows.append(
                    _row(limit.law, sign * np.eye(mechanism.nv)[limit.velocity], v, distance)
                )
    return distances, rows


def _contact_rows(
    placed: Placed, contact: Contact, v: Array
) -> tuple[list[float], list[float], list[_Row]]:
    """A contact's point and axes in the world, and its constraints."""
    touch = contact.touch()
    axes, slopes = axes_of(placed, contact, touch), np.zeros((3, len(v)))
    for moved, sign in zip(moving(placed, contact), (-1.0, 1.0), strict=True):
        for dof in moved:
            slopes[:, dof] = sign * np.array(jacobian(placed, contact, touch.point, axes, dof))
    normal, *tangents = slopes
    slides = [sign * contact.friction * each for each in tangents for sign in (1.0, -1.0)]
    rows = [
        _row(contact.law, normal + slide, v, float(contact.distance))
        for slide in (slides if contact.friction else [np.zeros(len(v))])
    ]
    matrix = np.array(placed.root(contact.root).matrix, float)
    world = np.array(axes, float) @ matrix.T
    shown = world if contact.friction else world[:1]
    return placed.in_world(contact.root, touch.point), shown.reshape(-1).tolist(), rows


def _shown_axes(contact: Any) -> Sequence[float]:
    """A contact's axes as far as they matter: without friction, the normal."""
    return list(contact.frame[: 3 if contact.dim == 1 else 9])


def _pair_number(model: Any, one: int, two: int) -> int:
    return min(one, two) * int(model.ngeom) + max(one, two)


def _in_mujocos_order(placed: Placed, touching: Sequence[Contact], data: Any) -> list[Contact]:
    """Our contacts in the order of MuJoCo's; shorter where one of MuJoCo's has no counterpart.

    Of several contacts of one pair of geoms, the nearest is the counterpart.
    """
    left, found = list(touching), list[Contact]()
    for theirs in data.contact:
        alike = [c for c in left if {*c.geoms} == {int(theirs.geom1), int(theirs.geom2)}]
        if alike:

            def away(contact: Contact, at: Any = theirs.pos) -> float:
                point = placed.in_world(contact.root, contact.touch().point)
                return float(np.linalg.norm(np.array(point, float) - at))

            best = min(alike, key=away)
            found.append(best)
            left.remove(best)
    return found if not left else []


# --- terms of the compiled function ---------------------------------------------------------------


def _add_compiled(
    tally: _Tally, mechanism: Mechanism, states: Sequence[_State], by_mujoco: Sequence[Any]
) -> str | None:
    """Compare what the compiled function computes; returns why not, if it cannot run."""
    model = by_mujoco[0].model
    widths = {**sizes(mechanism.model), "warm": mechanism.nv}
    read = [
        Slot(name, entry, False)
        for name in ("qfrc_constraint", "cfrc_ext")
        for entry in range(widths[name])
    ]
    arrays = {name: np.zeros((max(width, 1), len(states))) for name, width in widths.items()}
    for name, rows in zip(("qpos", "qvel", "ctrl"), zip(*states, strict=True), strict=True):
        if widths[name]:
            arrays[name][:] = np.array(rows).T
    run = _runner()
    if run is None:
        return (
            f"{', '.join(_COMPILED)} were not compared, because there is neither Warp (pip install "
            "'gensmooth[rl,cuda]') nor a C++ compiler on this machine."
        )
    looked, moved = run(fused(mechanism, ["step", "forces"], read), arrays)
    mujoco = load_mujoco()
    for step, data in enumerate(by_mujoco):
        theirs: dict[str, Any] = {"qfrc_constraint": np.array(data.qfrc_constraint)}
        ours: dict[str, Any] = {"qfrc_constraint": looked["qfrc_constraint"][:, step]}
        mujoco.mj_step(model, data)
        if not model.nsensor:  # sensors make MuJoCo compute these forces at another time
            mujoco.mj_rnePostConstraint(model, data)
            theirs["cfrc_ext"], ours["cfrc_ext"] = data.cfrc_ext, moved["cfrc_ext"][:, step]
        theirs["qacc"], ours["qacc"] = data.qacc, moved["warm"][:, step]
        for name in ("qpos", "qvel"):
            theirs[name], ours[name] = getattr(data, name), moved[name][:, step]
        tally.add(step, ours, theirs)
    return None


def _runner() -> Callable[[FusedSource, Values], tuple[Values, Values]] | None:
    """What runs the compiled function on this machine; ``None`` if nothing does."""
    if find_spec("warp") is not None:
        return _by_warp
    compiler = find_compiler()
    return None if compiler is None else partial(_by_compiler, compiler)


def _by_compiler(compiler: str, source: FusedSource, arrays: Values) -> tuple[Values, Values]:
    """The numbers of all worlds where they are, and after a step."""
    driver = HostPhysics(compiler, source, arrays, arrays["qpos"].shape[1])
    driver.look()
    looked = {name: each.copy() for name, each in arrays.items()}
    driver.step()
    return looked, arrays


def _by_warp(source: FusedSource, arrays: Values) -> tuple[Values, Values]:
    """The same by Warp."""
    wp = load_warp()
    kernels: Any = import_module("gensmooth.physics.warp_kernels")
    with wp.ScopedDevice("cpu"):
        worlds = kernels.Worlds()
        worlds.worlds = arrays["qpos"].shape[1]
        worlds.trial = wp.zeros(worlds.worlds, dtype=wp.int32)
        for name, each in arrays.items():
            setattr(worlds, name, wp.array(each.reshape(-1), dtype=wp.float64))
        driver = FusedPhysics(source, worlds)

        def numbers() -> Values:
            return {
                name: np.array(getattr(worlds, name).numpy()).reshape(each.shape)
                for name, each in arrays.items()
            }

        driver.look()
        looked = numbers()
        driver.step()
        return looked, numbers()
