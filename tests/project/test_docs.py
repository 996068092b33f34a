"""The documentation: Python blocks run as they stand, links lead somewhere, pages are named."""

import contextlib
import doctest
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from patience import LONG

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("*.md"), *DOCS.glob("*.md"), *DOCS.glob("*/*.md"))
)
# Pages whose blocks need a test of their own: other processes, files with names, a command.
ELSEWHERE = {
    "docs/contributing/family.md": "test_contributing.py",
    "docs/contributing/search.md": "test_contributing.py",
    "docs/contributing/pilot-rule.md": "test_contributing.py",
    "docs/contributing/environment.md": "test_contributing_physics.py",
    "docs/contributing/physics-bug.md": "test_contributing_physics.py",
    "docs/contributing/study.md": "test_studies_contributing.py",
    "docs/contributing/claim.md": "test_studies_contributing.py",
    "docs/evaluators.md": "test_evaluators_docs.py",
    "docs/checkpoints.md": "test_runs_docs.py",
    "docs/observability.md": "test_runs_docs.py",
    "docs/problems.md": "test_problems_docs.py",
    "docs/theory.md": "test_theory_input.py",
    "docs/pilot.md": "test_theory_input.py",
    "docs/rl.md": "test_rl_cli.py",
    "docs/environments.md": "test_rl_legged.py",
    "docs/environments-metaworld.md": "test_rl_metaworld.py",
    "docs/gpu.md": "test_warp.py",
    "docs/tutorial.md": "test_docs.py",
}
NEEDS = {
    "docs/from-scipy.md": "scipy",
    "docs/from-nevergrad.md": "nevergrad",
    "docs/from-pycma.md": "cma",
    "docs/from-ars.md": "gymnasium",
    "docs/physics.md": "gymnasium",
    "docs/jax.md": "jax",
    "docs/torch.md": "torch",
    "docs/integrations.md": "optuna",
    "docs/announcements/huggingface.md": "transformers",
    "docs/announcements/lightning.md": "lightning",
    "docs/announcements/optunahub.md": "optuna",
    "docs/announcements/nevergrad.md": "nevergrad",
    "docs/announcements/gymnasium.md": "gymnasium",
}


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def blocks_of(page):
    """The Python blocks, and the line at which each begins."""
    text = text_of(page)
    return [
        (found[1], text.count("\n", 0, found.start(1)))
        for found in re.finditer(r"^```python\n(.*?)^```", text, flags=re.S | re.M)
    ]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in ELSEWHERE and blocks_of(page)]
)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    if page in NEEDS:
        pytest.importorskip(NEEDS[page])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    names = {"__name__": "__docs__"}
    for block, line in blocks_of(page):
        if ">>>" in block:
            test = doctest.DocTestParser().get_doctest(block, names, page, page, line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
            assert runner.run(test, clear_globs=False).failed == 0
            names |= test.globs
        else:
            exec(compile("\n" * line + block, page, "exec"), names)


def same(printed, shown):
    """Whether two texts have the same words, and numbers that differ by rounding only."""
    number = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-−+]\d+)?")
    ours, theirs = number.findall(printed), number.findall(shown)
    values = [
        [float(n.replace(",", "").replace("−", "-")) for n in each] for each in (ours, theirs)
    ]
    words = [" ".join(number.sub("#", each).split()) for each in (printed, shown)]
    return words[0] == words[1] and values[0] == pytest.approx(values[1], rel=0.02, abs=0.15)


def shown_after(page):
    """What stands below a block as its output: the block's text, and the output."""
    return dict(
        re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", text_of(page), re.S | re.M)
    )


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial.md"])
def test_blocks_print_what_is_shown_below_them(page):
    names, shown = {}, shown_after(page)
    assert shown
    for block, _ in blocks_of(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, page, "exec"), names)
        if block in shown:
            assert same(printed.getvalue(), shown[block])


def test_the_check_of_what_is_printed_finds_other_words_and_other_numbers():
    assert same("fun 0.19 ± 0.18", "fun  0.2 ± 0.2")
    assert not same("fun 0.19 ± 0.18", "fun 1.19 ± 0.18")
    assert not same("fun 0.19 ± 0.18", "best 0.19 ± 0.18")


def test_the_tutorial_from_the_shell(tmp_path):
    """Every command of docs/tutorial.md but those that install, in the tutorial's folder."""
    text = text_of("docs/tutorial.md")
    (name,) = re.findall(r"a file `(\w+\.py)`", text)
    (source,) = [block for block, _ in blocks_of("docs/tutorial.md") if "TARGET" in block]
    (tmp_path / name).write_text(source, encoding="utf-8")
    lines = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)).splitlines()
    commands = [line for line in lines if line.startswith("gensmooth")]
    assert len(commands) == 5
    printed = []
    for line in commands:
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(line)],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "120"},
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    fun = float(re.search(r"^fun +(\S+) ±", printed[1], re.M)[1])
    assert 400 < fun < 500
    for page in re.findall(r"`(\w+/\S*report\.html)`", text):
        assert (tmp_path / page).stat().st_size > 10_000


@pytest.mark.parametrize("page", ELSEWHERE)
def test_the_other_pages_have_tests(page):
    assert blocks_of(page)
    assert Path(page).name in next((ROOT / "tests").rglob(ELSEWHERE[page])).read_text(
        encoding="utf-8"
    )


def test_every_method_is_described():
    import gensmooth as gs

    page, families = text_of("docs/methods.md"), text_of("docs/directions.md")
    bold = set(re.findall(r"^\*\*([\w-]+)\*\*", page, flags=re.M))
    rows = "\n".join(line for line in page.splitlines() if line.startswith("| `"))
    for name, entry in gs.searches.algorithms.ALGORITHMS.items():
        assert f"`{name}`" in rows
        assert re.match(r"[\w-]+", entry.title)[0] in bold, name
    plain = {name.removesuffix("-shrinkage") for name in gs.directions.METHODS}
    missing = [name for name in plain if f"`{name}`" not in families]
    assert missing == []


# --- links ---------------------------------------------------------------------------------------


def without_code(text):
    return re.sub(r"`[^`\n]*`", "`code`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))


def anchors(text):
    """The names that headings get, as on GitHub and on the site."""
    seen = Counter()
    for heading in re.findall(
        r"^#+ +(.*?) *#*$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), flags=re.M
    ):
        said = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.replace("`", "").replace("*", ""))
        name = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
        yield name if not seen[name] else f"{name}-{seen[name]}"
        seen[name] += 1
    yield from re.findall(r'<a (?:id|name)="([^"]+)"', text)


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page):
    missing = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page))):
        name, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (ROOT / page).parent / name if name else ROOT / page
        if not target.exists():
            missing.append(link)
        elif target.suffix == ".md" and anchor:
            known = set(anchors(target.read_text(encoding="utf-8")))
            missing += [link] if anchor not in known else []
    assert missing == []


def test_the_check_of_links_finds_a_broken_one():
    assert set(anchors("# A `b` c!\n\n```sh\n# no heading\n```\n## A b c")) == {"a-b-c", "a-b-c-1"}
    assert "x.md" not in without_code("```sh\n[a](x.md)\n```\n`[a](x.md)`")


def test_the_pages_of_results_show_the_stored_numbers(tmp_path):
    drawn = ["training-results.md", "pilot-results.md"]
    for page in drawn:  # without any table, as it is before the script draws them
        text = re.sub(r"^\|.*\n", "", text_of(f"docs/{page}"), flags=re.M)
        (tmp_path / page).write_text(text, encoding="utf-8")
    words = ["benchmarks.page", "--docs", str(tmp_path)]
    subprocess.run([sys.executable, "-m", *words], check=True, timeout=LONG, cwd=ROOT)
    for page in ("benchmarks.md", *drawn):
        assert (tmp_path / page).read_text(encoding="utf-8") == text_of(f"docs/{page}")


@pytest.mark.parametrize("name", ["training", "pilot"])
def test_every_stored_experiment_names_its_section(name):
    known = set(anchors(text_of(f"docs/{name}-results.md")))
    stored = json.loads(text_of(f"docs/results/{name}-experiments.json"))
    assert {record["anchor"] for record in stored.values()} <= known


# --- the site ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site():
    """The site's own modules, as its conf.py finds them."""
    pytest.importorskip("sphinx")
    pytest.importorskip("latex2mathml")
    before = list(sys.path)
    sys.path.insert(0, str(DOCS / "_site"))
    import api_pages
    import gallery
    import mathematics
    import pages

    yield {"gallery": gallery, "math": mathematics, "pages": pages, "reference": api_pages}
    sys.path[:] = before


def test_the_contents_name_pages_that_are_there_and_each_once(site):
    named = site["pages"].named(text_of("docs/index.md"))
    assert len(named) == len(set(named)) > 20
    made = {"gallery/index", "api/index"}  # by the build
    assert [name for name in named if name not in made and not (DOCS / f"{name}.md").exists()] == []


def test_the_reference_has_every_public_name_once(site):
    import gensmooth

    pages = site["reference"].pages()
    described = Counter(
        re.findall(r"^\.\. (?:auto\w+|py:data):: (\S+)", "\n".join(pages.values()), re.M)
    )
    assert max(described.values()) == 1
    modules = set(gensmooth._MODULES)
    public = [name for name in gensmooth.__all__ if name not in modules and name != "__version__"]
    assert [name for name in public if f"gensmooth.{name}" not in described] == []
    assert "gensmooth.directions.Bernoulli" not in described
    assert "gensmooth.theory.relative_mse" in described


def test_formulas_become_mathml_and_unknown_commands_an_error(site):
    assert "<mfrac>" in site["math"].mathml(r"\frac12 \|x\|", block=False)
    with pytest.raises(ValueError, match="nosuch"):
        site["math"].mathml(r"\nosuch{x}", block=True)


def test_displayed_formulas_come_in_parts_that_fit_on_a_phone(site):
    parts = site["math"].parts
    assert parts(r"a = b + (c + d) \qquad e") == [["a", "{}= b", r"{}+ (c + d) \qquad"], ["e"]]
    assert parts(r"\frac{a + b}{c} \le -d") == [[r"\frac{a + b}{c}", r"{}\le -d"]]
    assert len(parts(r"\begin{cases} a = b \\ c \end{cases}")[0]) == 1


def test_the_gallery_is_in_order_and_its_order_names_examples(site):
    names = {path.stem for path in (ROOT / "examples").glob("*.py")}
    programs = {
        "own_robot",
        "six_methods",
        "torch_lightning",
        "torch_loop",
        "torch_rate",
        "torch_trainer",
    }
    assert names - set(site["gallery"].ORDER) == programs
    assert set(site["gallery"].ORDER) < names
    key = site["gallery"].Order("examples")
    assert sorted(["zebra.py", "resume.py", "black_box.py"], key=key)[0] == "black_box.py"
