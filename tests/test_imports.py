"""What importing costs, and who may import whom (C7)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth

ROOT = Path(gensmooth.__file__).parent
ARCHITECTURE = Path(__file__).parent.parent / "docs" / "architecture.md"
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
        "search = gs.RandomSearch(gs.shrunk(gs.Bernoulli()), 4, 0.1, optimizer=gs.adam(0.1))\n"
        "gs.method('guided-es', dim=9, num_directions=4); gs.theory.iid(9, 4)\n"
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

# Each layer may import those above it in this list; members of one layer do not import each other.
# docs/architecture.md shows this list: `python tests/test_imports.py` writes it there.
LAYERS = [
    (
        "_version checks naming",
        "plain errors for bad arguments; a user's things by `module:name`, their source as a hash",
    ),
    (
        "theory streams expressions",
        "formulas on floats; how a random number is addressed; objects as text",
    ),
    ("kernels", "Numba: tiles of directions; perturb, combine, orthogonalise"),
    ("directions estimators optimizers parameters", "the three choices; x as users give it"),
    ("trees", "x as a structure of the user's: dicts, lists, tuples and dataclasses of arrays"),
    (
        "batch coordinates methods",
        "the evaluations of a step; what the objective has and what the search has; methods by "
        "name",
    ),
    ("models searches", "directions of a model's named parameters; what every search is"),
    ("search pure describe", "`init`, `ask`, `tell`; the copy to read; choices as JSON"),
    (
        "pilot algorithms",
        "the default search, which finds its own numbers; those of the literature, by name",
    ),
    (
        "advice observe points",
        "what a run should have been told; who follows it: live table, trackers; asking one point "
        "at a time",
    ),
    ("runs", "programs, the one loop, the run folder, checkpoints, metrics, interrupts"),
    ("evaluators results", "calling the objective anywhere; what a run gives"),
    ("resuming", "what a run that goes on is made of, from its `config.json`"),
    ("optimize", "`minimize`, `gradient`, `resume`: minimising as a program"),
    (
        "jax torch",
        "zeroth-order training of pytrees and of torch modules, which need the extras of their "
        "names",
    ),
    ("nevergrad optuna scipy", "our methods as those libraries want them"),
    ("rl", "policy search: training as a program, environments, policies"),
    ("report", "figures, tables, the page: a library that knows no study"),
    ("studies", "specs, stores, statistics, verdicts, and one folder per study"),
    ("problems", "the models of two studies under the names that one looks for"),
    ("comparisons", "methods and options side by side on one function, and the page of it"),
    ("overview", "a page of any folder: run, training, comparison, sweep, study"),
    ("cli", "the `gensmooth` command: its options are the parameters of the functions above"),
    ("__main__", "`python -m gensmooth`"),
]
LEVELS = [set(names.split()) for names, _ in LAYERS]
RANK = {name: rank for rank, level in enumerate(LEVELS) for name in level}
FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


def part_of(path: Path) -> str:
    """The part of the package (the member of a level) that a file belongs to."""
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
    """What a part imports that it must not: its own level or a later one, itself apart."""
    parts = {name for name in imported if name in RANK and name != part}
    return {name for name in parts if RANK[name] >= RANK[part]}


def test_every_part_of_the_package_has_its_level():
    assert {part_of(path) for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_point_downward(path: Path):
    part = part_of(path)
    assert upward(part, imports_of(path.read_text())) == set()


def test_an_upward_import_would_be_seen():
    for source in (
        "from gensmooth import search",
        "import gensmooth.search",
        "from gensmooth.search import RandomSearch",
        "def f():\n    from gensmooth.search import RandomSearch",
    ):
        assert upward("directions", imports_of(source)) == {"search"}
    assert upward("directions", imports_of("from gensmooth.estimators import Plan"))
    assert not upward("search", imports_of("from gensmooth.estimators import Plan"))


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
        f"| {number} | {', '.join(f'`{name}`' for name in names.split())} | {knows} |"
        for number, (names, knows) in enumerate(LAYERS, 1)
    ]
    return "\n".join(["| layer | modules | what it knows |", "|---|---|---|", *rows])


def test_the_architecture_page_shows_these_layers():
    assert layers_table() in ARCHITECTURE.read_text()


def test_only_kernels_import_numba():
    for path in FILES:
        words = path.read_text()
        if "import numba" in words or "from numba" in words:
            assert part_of(path) in {"kernels", "rl", "studies"}, path


if __name__ == "__main__":
    page = ARCHITECTURE.read_text()
    before, _, rest = page.partition("| layer | modules |")
    after = rest[rest.index("\n\n") :]
    ARCHITECTURE.write_text(before + layers_table() + after)
