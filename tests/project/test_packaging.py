"""The package: what is in it, what it claims, and who checks that."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gensmooth as gs

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = (ROOT / ".github/workflows/ci.yml").read_text()
SMOKE = ROOT / "tests" / "smoke.py"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A wheel and an sdist, made by the pinned backend that is installed here."""
    folder = tmp_path_factory.mktemp("dist")
    line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return folder


def test_the_wheel_has_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"gensmooth-{gs.__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"gensmooth", f"gensmooth-{gs.__version__}.dist-info"}
    assert "gensmooth/py.typed" in names
    source = ROOT / "src"
    ours = {str(p.relative_to(source)) for p in source.rglob("*") if p.is_file()}
    ours = {name for name in ours if "__pycache__" not in name and ".egg-info" not in name}
    assert {name for name in names if name.startswith("gensmooth/")} == ours


def test_the_sdist_can_be_tested_and_built_again(built):
    (sdist,) = built.glob("*.tar.gz")
    root = f"gensmooth-{gs.__version__}"
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{root}/") for name in archive.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "tests/smoke.py"}
    wanted |= {"constraints-gpu.txt"}
    assert wanted <= names
    assert not [name for name in names if "__pycache__" in name or ".venv" in name]


def test_the_lowest_versions_are_those_that_are_claimed():
    lines = (ROOT / "tests/lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if not line.startswith("#"))
    claimed = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["scipy"]]
    floors = {}
    for requirement in map(Requirement, claimed):
        (floor,) = [each.version for each in requirement.specifier if each.operator == ">="]
        floors[requirement.name] = floor
    assert set(lowest) == set(floors)
    for name, version in lowest.items():
        assert (version + ".0.0").startswith(f"{floors[name]}."), name


def test_the_workflow_tries_every_python_that_is_claimed():
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    tried = re.search(r"python: \[(.*)\]", WORKFLOW)[1]
    assert re.findall(r"3\.\d+", tried) == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    for name in (".ci/run", "tests/lowest.txt", "tests/smoke.py"):
        assert name in WORKFLOW
        assert (ROOT / name).exists()


def test_the_smoke_test_passes_and_refuses_a_source_tree(tmp_path):
    """Its checks run here, but as a whole it wants an installed package."""
    code = (
        "import runpy; names = runpy.run_path(r'%s')\n"
        "names['check_python'](); assert names['check_scipy']()[0].isdigit()\n"
        "try: names['main']()\n"
        "except AssertionError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code % SMOKE],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    if "site-packages" not in gs.__file__:
        assert "this is no installed package" in done.stdout


def test_the_page_on_installation_names_every_extra_and_what_all_leaves_out():
    """Other pages name the extra; how an extra is installed is said on this page."""
    page = (ROOT / "docs/installation.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, re.M)
    extras = PROJECT["optional-dependencies"]
    users = set(extras) - {"all", "test", "docs", "lint"}
    users = {name for name in users if not name.startswith("test-")}
    assert set(re.findall(r"`([\w-]+)`", " ".join(rows))) == users
    (everything,) = map(Requirement, extras["all"])
    left_out = users - everything.extras
    assert (
        set(re.search(r"every extra except (.*)", page)[1].replace(" and", ",").split(", "))
        == left_out
    )
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.search(r"all but (.*)", readme)[1].replace(" and", ",").split(", ")) == left_out
    for path in (ROOT / "docs").rglob("*.md"):
        assert "pip install 'gensmooth[" not in path.read_text(encoding="utf-8"), path
