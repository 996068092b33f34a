"""What importing costs, and who may import whom (C7)."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth

ROOT = Path(gensmooth.__file__).parent
ARCHITECTURE = Path(__file__).parents[2] / "docs" / "architecture.md"
pytestmark = pytest.mark.usefixtures("fresh_interpreters")
HEAVY = {
    *("numba", "scipy", "matplotlib", "ray", "gymnasium", "mujoco", "nevergrad", "rich", "typer"),
    *("jax", "optax", "torch", "pandas", "cmaes"),
}


def loaded_after(code: str) -> set[str]:
    """The top-level modules that are loaded after some code has run in a fresh interpreter."""
    names = "print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\n{names}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_importing_the_package_imports_numpy_alone():
    loaded = loaded_after("import gensmooth")
    assert "gensmooth" in loaded
    assert not loaded & HEAVY


def test_every_public_name_is_there_and_none_needs_what_is_heavy():
    code = "import gensmooth as gs\nfor name in gs.__all__: getattr(gs, name)"
    assert not loaded_after(code) & HEAVY
    assert set(gensmooth.__all__) == set(dir(gensmooth))


def test_describing_a_search_does_not_compile_and_running_it_does():
    describe = (
        "import gensmooth as gs\n"
        "search = gs.RandomSearch(gs.shrunk(gs.Bernoulli()), num_directions=4, spacing=0.1)\n"
        "gs.directions.named('guided-es', dim=9, num_directions=4); gs.theory.iid(9, 4)\n"
        "state = search.init([0.0, 0.0], seed=0)\n"
    )
    assert not loaded_after(describe) & HEAVY
    run = loaded_after(describe + "search.ask(state).point(0)")
    assert "numba" in run
    assert not run & (HEAVY - {"numba", "scipy"})  # Numba itself looks for SciPy


def test_running_a_search_does_not_import_scipys_linear_algebra_and_a_compiled_dot_still_works():
    code = (
        "import sys, numba, numpy as np, gensmooth as gs\n"
        "gs.minimize(lambda x: float(x @ x), np.ones(3), budget=50, seed=0)\n"
        "print('scipy.linalg' in sys.modules)\n"
        "print(numba.njit(lambda a: np.dot(a, a))(np.eye(2)).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "[[1.0, 0.0], [0.0, 1.0]]"]


def test_theory_needs_the_standard_library_alone():
    code = "import gensmooth\nbefore = set(sys.modules)\nimport gensmooth.theory\n"
    code += "sys.modules = {n: None for n in set(sys.modules) - before}"
    loaded = loaded_after(code)
    assert loaded - set(sys.stdlib_module_names) == {"gensmooth"}


# --- layers ------------------------------------------------------------------------------------

# Imports go downward: a module imports only modules of earlier layers, and of its own layer those
# that are listed before it. docs/architecture.md shows this list, and
# `python tests/project/test_imports.py` writes it there.
LAYERS = [
    (
        "foundations",
        "_version checks fields naming theory streams expressions kernels",
        "plain errors for bad arguments; the fields of files; custom objects by `module:name`; "
        "formulas on floats; how a random number is addressed; the Numba kernels",
    ),
    (
        "choices",
        "parameters directions estimators optimizers trees batch coordinates models describe",
        "directions, estimators and optimisers; x as users pass it; the evaluations of a step; "
        "choices as JSON",
    ),
    (
        "searches",
        "searches pure points",
        "`init`, `ask`, `tell`: random search, the pilot and its searches, the literature's "
        "algorithms; from a name to a search; the algorithm in NumPy, to read; asking for one "
        "point at a time",
    ),
    (
        "evaluate and run",
        "observe runs evaluators results",
        "calling the objective anywhere; programs, the one loop, folders and checkpoints; who "
        "follows a run, and what it returns",
    ),
    ("minimise", "optimize", "`minimize`, `resume`, `gradient`"),
    (
        "training and integrations",
        "jax torch nevergrad optuna scipy rl",
        "policies, torch modules and pytrees; our methods for other libraries",
    ),
    (
        "lab",
        "lab problems",
        "experiments, statistics, verdicts and pages: the paper's studies, comparing, sweeping",
    ),
    ("command", "cli __main__", "the `gensmooth` command"),
]
# Physics stands beside the layers. It imports foundations only, and training imports it.
PHYSICS = "physics"
BESIDE = ("beside them", PHYSICS, "robots' models as one function each; imports foundations only")
FOUNDATIONS = {"_version", "checks", "naming", "streams", "expressions", "kernels"}
ORDER = [name for _, names, _ in LAYERS for name in names.split()]
ORDER.insert(ORDER.index("rl"), PHYSICS)
RANK = {name: rank for rank, name in enumerate(ORDER)}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    """The part of the package that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(source: str) -> set[str]:
    """The parts of the package that a file imports, at its top or inside its functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "gensmooth" and rest:
                found.add(rest.partition(".")[0])
    return found


def upward(part: str, imported: set[str]) -> set[str]:
    """What a part imports although it comes later."""
    parts = {name for name in imported if name in RANK and name != part}
    if part == PHYSICS:
        return parts - FOUNDATIONS
    return {name for name in parts if RANK[name] >= RANK[part]}


def test_every_part_of_the_package_has_its_layer():
    assert {part_of(path) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path: Path):
    part = part_of(path)
    assert upward(part, imports_of(path.read_text())) == set()


LAB = ("report", "experiments", "paper", "trials", "compare", "sweep", "run_page", "overview")


@pytest.mark.parametrize("path", sorted((ROOT / "lab").rglob("*.py")), ids=lambda p: str(p.name))
def test_imports_within_the_lab_point_downward(path: Path):
    part = path.relative_to(ROOT / "lab").parts[0].removesuffix(".py")
    allowed = LAB if part == "__init__" else LAB[: LAB.index(part) + 1]
    nodes = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
    names = {f"{node.module}.{alias.name}" for node in nodes for alias in node.names}
    imported = {name.split(".")[2] for name in names if name.startswith("gensmooth.lab.")}
    assert imported <= set(allowed)


def test_an_upward_import_would_be_seen():
    for source in (
        "from gensmooth import searches",
        "import gensmooth.searches",
        "from gensmooth.searches import RandomSearch",
        "def f():\n    from gensmooth.searches import RandomSearch",
    ):
        assert upward("directions", imports_of(source)) == {"searches"}
    assert upward("directions", imports_of("from gensmooth.estimators import Plan"))
    assert not upward("searches", imports_of("from gensmooth.estimators import Plan"))
    for name in ("rl", "searches", "directions", "theory", "evaluators"):
        assert upward("physics", imports_of(f"from gensmooth.{name} import anything")) == {name}
    assert not upward("physics", imports_of("from gensmooth import checks, naming, streams"))
    assert not upward("rl", imports_of("from gensmooth.physics import registry"))


def test_physics_names_no_module_above_it():
    """Neither by an import that is looked up at run time, nor as an entry point."""
    above = [f"gensmooth.{name}" for name in set(RANK) - FOUNDATIONS - {PHYSICS}]
    for path in (ROOT / PHYSICS).rglob("*.py"):
        words = set(re.findall(r"gensmooth\.\w+", path.read_text()))
        assert not words & set(above), path


def test_the_package_itself_imports_its_version_alone():
    tree = ast.parse((ROOT / "__init__.py").read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {name for node in top for name in imports_of(ast.unparse(node))}
    assert names == {"_version"}


def test_one_name_is_one_class():
    where: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                where.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in where.items() if len(files) > 1} == {}


def layers_table() -> str:
    """The layers as docs/architecture.md shows them."""
    rows = [
        f"| {layer} | {', '.join(f'`{name}`' for name in names.split())} | {knows} |"
        for layer, names, knows in (*LAYERS, BESIDE)
    ]
    return "\n".join(["| layer | modules | what it knows |", "|---|---|---|", *rows])


def test_the_architecture_page_shows_these_layers():
    assert layers_table() in ARCHITECTURE.read_text()


def test_only_kernels_import_numba():
    for path in FILES:
        words = path.read_text()
        if "import numba" in words or "from numba" in words:
            assert part_of(path) in {"kernels", "physics", "rl", "lab"}, path


if __name__ == "__main__":
    page = ARCHITECTURE.read_text()
    before, _, rest = page.partition("| layer | modules |")
    after = rest[rest.index("\n\n") :]
    ARCHITECTURE.write_text(before + layers_table() + after)
