"""``gensmooth physics compare``: all terms agree, and a planted bug is found where it is."""

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mujoco")
pytest.importorskip("gymnasium")

import mechanisms
from gensmooth.physics import compare as module
from gensmooth.physics import registry
from gensmooth.physics.compare import compare, compare_changed
from gensmooth.physics.fused import solver
from gensmooth.physics.fused import source as fused_source
from gensmooth.physics.host_compiler import find_compiler
from gensmooth.physics.mechanics import contacts, mechanism, models
from gensmooth.physics.mechanics.placed import Placed
from gensmooth.physics.mechanics.spatial import ZERO, Spatial
from gensmooth.physics.symbols import Slot

ROBOTS = [name for name in registry.names() if not name.startswith("ML1-") and ":" not in name]
COMPILED = {"qfrc_constraint", "qacc", "qvel", "qpos", "cfrc_ext"}
CAN_COMPILE = module._runner() is not None
needs_a_compiler = pytest.mark.skipif(not CAN_COMPILE, reason="needs Warp or a C++ compiler")


@pytest.mark.parametrize("name", ROBOTS)
def test_every_term_of_every_robot_is_mujocos(name: str):
    found = compare(name, steps=20)
    assert [each for each in found.differences if not each.agrees] == []
    names = {each.term.name for each in found.differences}
    assert {"xpos", "qM", "qfrc_bias", "efc_J", "observation", "reward"} <= names
    assert (names >= COMPILED) == (found.left_out is None) == CAN_COMPILE


@pytest.mark.parametrize("name", mechanisms.OWN)
def test_every_term_of_a_model_file_is_mujocos(name: str, tmp_path: Path):
    file = tmp_path / "model.xml"
    file.write_text(mechanisms.OWN[name])
    found = compare(str(file), steps=40)
    assert [each for each in found.differences if not each.agrees] == []
    sizes = {each.term.name: each.size for each in found.differences}
    assert sizes["contact.dist"] > 0
    assert "reward" not in sizes


# --- a wrong constant is found at its term --------------------------------------------------------


def scaled(field: str, factor: float = 1.01, index: Any = ...) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        getattr(model, field)[index] *= factor

    return change


def shorter_steps(model: Any) -> None:
    model.opt.timestep *= 0.99


def more_gravity(model: Any) -> None:
    model.opt.gravity[:] *= 1.01


TWINS: dict[str, tuple[Callable[[Any], None], str]] = {
    "a leg that is attached elsewhere": (scaled("body_pos"), "xpos"),
    "a heavier leg": (scaled("body_mass", index=3), "subtree_com"),
    "moments of inertia": (scaled("body_inertia"), "cinert"),
    "armature": (scaled("dof_armature"), "qM"),
    "gravity": (more_gravity, "qfrc_bias"),
    "damping": (scaled("dof_damping"), "qfrc_passive"),
    "stiffness of springs": (scaled("jnt_stiffness"), "qfrc_passive"),
    "gear": (scaled("actuator_gear"), "qfrc_actuator"),
    "range of joints": (scaled("jnt_range", 1.0001), "limits"),
    "thickness of feet": (scaled("geom_size", 1.0001), "contact.dist"),
    "no contacts": (scaled("geom_contype", 0), "contact.geom"),
    "friction": (scaled("geom_friction"), "efc_J"),
    "impedance": (scaled("geom_solimp", 0.99), "efc_D"),
    "time constant of contacts": (scaled("geom_solref", 1.1), "efc_aref"),
}


@pytest.mark.parametrize(("change", "term"), TWINS.values(), ids=TWINS)
def test_a_wrong_constant_is_found_at_its_term(change: Callable[[Any], None], term: str):
    found = compare_changed("HalfCheetah-v4", change, steps=40)
    assert found.first is not None
    assert found.first.term.name == term


@needs_a_compiler
def test_another_time_step_is_found_where_it_is_taken():
    first = compare_changed("HalfCheetah-v4", shorter_steps, steps=5).first
    assert first is not None
    assert first.term.name == "qvel"


# --- a bug in the code leads to its function (docs/contributing/physics-bug.md) -------------------


def wrong_sign_of_a_force(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Spatial.of_force
    monkeypatch.setattr(Spatial, "of_force", lambda self, other: usual(self, other).times(-1.0))


def wrong_softness_of_contacts(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = contacts.contact_law

    def softer(*args: Any) -> Any:
        law, friction = usual(*args)
        return dataclasses.replace(law, stiffness=1.01 * law.stiffness), friction

    monkeypatch.setattr(contacts, "contact_law", softer)


def joint_limits_off_by_a_margin(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = mechanism.limits

    def shifted(model: Any) -> Any:
        return [limit._replace(low=limit.low + 0.005) for limit in usual(model)]

    monkeypatch.setattr(mechanism, "limits", shifted)


def wrong_sign_of_limits_in_the_compiled_step(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = fused_source.write_limits

    def wrong(s: Any) -> None:
        usual(s)
        s.to.add("ls[0] = -ls[0];")

    monkeypatch.setattr(fused_source, "write_limits", wrong)


BUGS: list[Any] = [
    (wrong_sign_of_a_force, "qfrc_bias", "joint rooty", "Spatial.of_force"),
    (wrong_softness_of_contacts, "efc_aref", "contact of floor and foot_geom", "contact_law"),
    (joint_limits_off_by_a_margin, "limits", "distance, limit of joint", "limits"),
    pytest.param(
        *(wrong_sign_of_limits_in_the_compiled_step, "qfrc_constraint", "joint", "write_limits"),
        marks=needs_a_compiler,
    ),
]


@pytest.mark.parametrize(("plant", "term", "where", "function"), BUGS)
def test_a_bug_in_the_code_leads_to_its_function(
    plant: Callable[[pytest.MonkeyPatch], None],
    term: str,
    where: str,
    function: str,
    monkeypatch: pytest.MonkeyPatch,
):
    plant(monkeypatch)
    comparison = compare("Hopper-v5", steps=40)
    first = comparison.first
    assert first is not None
    assert first.term.name == term
    assert where in first.where
    assert first.ours != first.theirs
    assert any(f"({function})" in place for place, _ in comparison.suspects(first))
    if term == "limits":
        assert [each.startswith("limit of joint") for each in first.active] == [True]


def wrong_moments_of_inertia(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = models.rigid_inertia

    def wrong(*args: Any) -> Any:
        mass, centre, inertia = usual(*args)
        return mass, centre, [[1.01 * each for each in row] for row in inertia]

    monkeypatch.setattr(models, "rigid_inertia", wrong)


def wrong_sign_of_the_drift(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = Placed._drift

    def wrong(self: Placed, change: Any, velocity: Any, dofs: Any, v: Any) -> Any:
        return change + usual(self, ZERO, velocity, dofs, v).times(-1.0)

    monkeypatch.setattr(Placed, "_drift", wrong)


@pytest.mark.parametrize(
    ("plant", "term", "function"),
    [
        (wrong_moments_of_inertia, "qM", "rigid_inertia"),
        (wrong_sign_of_the_drift, "qfrc_bias", "Placed._drift"),
    ],
)
def test_the_function_at_fault_is_not_said_to_compute_a_term_that_agrees(
    plant: Callable[[pytest.MonkeyPatch], None],
    term: str,
    function: str,
    monkeypatch: pytest.MonkeyPatch,
):
    plant(monkeypatch)
    comparison = compare("Hopper-v5", steps=10)
    first = comparison.first
    assert first is not None
    assert first.term.name == term
    suspects = {place.split("(")[1]: agreeing for place, agreeing in comparison.suspects(first)}
    assert suspects[f"{function})"] == []


def test_every_joint_limit_is_tested_on_both_sides():
    comparison = compare("Hopper-v5", steps=3)
    limits = next(each for each in comparison.differences if each.term.name == "limits")
    assert limits.size >= 2 * 2 * 3  # three joints, two sides, a distance and a margin
    assert comparison.steps == 3 + 2 * 3


def test_pairs_that_never_touch_are_listed():
    assert "floor and torso_geom" in compare("Hopper-v5", steps=3).untouched


@needs_a_compiler
def test_a_solver_that_stops_too_early_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(solver, "_MAX_STEPS", 0)
    first = compare("HalfCheetah-v4", steps=20).first
    assert first is not None
    assert first.term.name == "qfrc_constraint"
    assert any("fused/solver.py" in place for place in first.term.places)


def test_a_wrong_reward_is_found(monkeypatch: pytest.MonkeyPatch):
    def wrong(*args: Any) -> Any:
        law = usual(*args)
        reward = Slot("paid", 0, False)
        return law._replace(step={**law.step, reward: law.step[reward] + 1e-3})

    usual = module.trace
    monkeypatch.setattr(module, "trace", wrong)
    first = compare("Hopper-v4", steps=5).first
    assert first is not None
    assert first.term.name == "reward"


def test_a_term_names_the_functions_that_compute_it():
    root = Path(module.__file__).parents[2]
    for term in module.TERMS:
        assert term.places
        for place, function in zip(term.places, term.functions, strict=True):
            file, _, rest = place.partition(":")
            line = (root / file).read_text().splitlines()[int(rest.split()[0]) - 1]
            assert function.__name__ in line or line.startswith("@")


def test_without_warp_and_a_compiler_the_terms_that_need_them_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "_runner", lambda: None)
    found = compare("InvertedPendulum-v5", steps=3)
    assert found.first is None
    assert "nor a C++ compiler" in str(found.left_out)
    assert not COMPILED & {each.term.name for each in found.differences}


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_warp_and_the_compiler_agree(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("warp", reason="needs Warp (docs/gpu.md): make test-all")
    for steps in (module._by_warp, module.partial(module._by_compiler, find_compiler())):
        monkeypatch.setattr(module, "_runner", lambda steps=steps: steps)
        assert compare("Hopper-v4", steps=20).first is None


def test_the_page_maps_every_file():
    root, page = Path(module.__file__).parent, Path(__file__).parents[2] / "docs" / "physics.md"
    mapped = set(re.findall(r"^\| `([\w/]+(?:\.py|/))` \|", page.read_text(), flags=re.MULTILINE))
    files = {path.relative_to(root).as_posix() for path in root.rglob("*.py")}
    files = {each for each in files if not each.endswith("__init__.py")}
    robots = {each for each in files if each.startswith("robots/")}
    assert mapped - {"robots/"} == files - robots


# --- what it refuses, and the command -------------------------------------------------------------


def test_what_cannot_be_compared_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no robot 'Hoper'. Did you mean 'Hopper'"):
        compare("Hoper")
    with pytest.raises(ValueError, match=r"There is no file nowhere\.xml"):
        compare("nowhere.xml")
    (tmp_path / "no.xml").write_text("no model")
    with pytest.raises(ValueError, match="is not a MuJoCo model"):
        compare(str(tmp_path / "no.xml"))
    ball = (
        '<mujoco><worldbody><body><joint type="ball"/><geom size="1"/></body></worldbody></mujoco>'
    )
    (tmp_path / "ball.xml").write_text(ball)
    with pytest.raises(ValueError, match=r"has ball joints, which .* does not support"):
        compare(str(tmp_path / "ball.xml"))
    with pytest.raises(ValueError, match="`steps` must be a whole number of at least 1"):
        compare("Hopper-v4", steps=0)


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gensmooth", "physics", "compare", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("fresh_interpreters")
def test_the_command_prints_a_table_and_says_that_all_agree():
    done = run("InvertedPendulum-v5", "--steps", "3", "--seed", "1")
    assert done.returncode == 0, done.stderr
    assert "qfrc_bias" in done.stdout
    assert "All terms agree with MuJoCo up to rounding." in done.stdout
    found = json.loads(run("InvertedPendulum-v5", "--steps", "3", "--json").stdout)
    assert (found["first"], found["states"]) == (None, 3 + 4)  # and beyond four limits
    assert {"name", "largest", "agrees", "places", "where"} <= set(found["terms"][0])


@pytest.mark.usefixtures("fresh_interpreters")
def test_the_command_names_the_first_difference(tmp_path: Path):
    """With the wrong damping in our copy of the model alone."""
    code = (
        "import sys\n"
        "from gensmooth.physics import compare as module\n"
        "changed = module.compare_changed\n"
        "def wrong(model, change, **options):\n"
        "    def damp(m):\n"
        "        m.dof_damping[:] *= 2\n"
        "    return changed(model, damp, **options)\n"
        "module.compare_changed = wrong\n"
        "sys.argv = ['gensmooth', 'physics', 'compare', 'Hopper-v4', '--steps', '5']\n"
        "from gensmooth.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1, done.stderr
    assert "The first term that differs is qfrc_passive (springs, dampers and fluid)" in done.stdout
    assert "gensmooth/physics/mechanics/placed.py" in done.stdout
