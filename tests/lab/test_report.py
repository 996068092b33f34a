"""The report: its numbers, its figures, its page, and the page in a real browser."""

import csv
import itertools
import math
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

import numpy as np
import pytest

import chromium
import report_outcomes as made

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from matplotlib.figure import Figure as Canvas
from PIL import Image

from gensmooth.directions import METHODS
from gensmooth.lab import Cell, RunRecord, write_report
from gensmooth.lab.report.curves import Curve, View, band, curves, draw_curves, legend, limits
from gensmooth.lab.report.figure import Figure, Panel, write_figure
from gensmooth.lab.report.style import assign_styles, css_variables, method_style
from gensmooth.lab.report.tables import choices
from gensmooth.runs import CheckpointError

COMMAND = "gensmooth reproduce all --profile paper --workers 2 --folder somewhere/with a & b"
DIVERGE = [("gs", 2, 5, 1), *(("bes", 2, 5, seed) for seed in range(3))]


def outcomes():
    return [
        made.linreg(seeds=3, rounds=20, diverge=DIVERGE),
        made.dfo(seeds=3, rounds=20),
        made.timing(),
        made.unknown(),
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    path = write_report(outcomes(), folder, command=COMMAND)
    assert path == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def page(out):
    return (out / "report.html").read_text(encoding="utf-8")


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(code, *args):
    """What a program prints in a Python of its own."""
    command = [sys.executable, "-c", code, *args]
    answer = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1] / "helpers",
    )
    return answer.stdout


# Numbers


def test_bands_are_those_of_numpy():
    rows = np.random.default_rng(0).normal(size=(5, 7))
    found = band(rows.tolist())
    np.testing.assert_allclose(found.mean, rows.mean(axis=0))
    np.testing.assert_allclose(found.sd, rows.std(axis=0, ddof=1))
    assert found.n.tolist() == [5] * 7


def test_a_rare_collapse_is_marked_and_does_not_set_the_scale():
    """Two of 100 rounds are rare, four are not; a mean beyond the axis is marked at its edge."""
    for rounds, rare in ((2, True), (4, False)):
        values = np.linspace(0, 10, 100)
        values[50 : 50 + rounds] = -1000.0
        curve = Curve(("here",), "gs", {"return": band([values, values])}, 1, 1, 2, 0)
        assert limits([curve], ["return"], "linear")[0] < -1000
        low, high = limits([curve], ["return"], "linear", rare=0.03)
        assert (low > -1) == rare
        assert high > 9
        view = View("return", (), lambda _, x: x, "", "", "linear", "linear", (low, high))
        ax = Canvas().add_subplot()
        draw_curves(ax, [curve], view)
        marks = [line for line in ax.lines if line.get_marker() == "v" and len(line.get_xdata())]
        assert [list(line.get_xdata()) for line in marks] == ([[51.0, 52.0]] if rare else [])


def test_a_bar_that_leaves_the_axis_is_marked():
    """Deviations are bars at some rounds; one that ends beyond the axis has a hollow arrowhead."""
    values = np.full(100, 5.0)
    curve = Curve(("here",), "gs", {"return": band([values - 3, values + 3])}, 1, 1, 2, 0)
    for ylim, marks in (((0.0, 10.0), 0), ((2.0, 10.0), 1), ((2.0, 8.0), 2), ((6.0, 7.0), 1)):
        view = View("return", (), lambda _, x: x, "", "", "linear", "linear", ylim)
        ax = Canvas().add_subplot()
        draw_curves(ax, [curve], view)
        found = [line for line in ax.lines if line.get_markerfacecolor() == "none"]
        assert sum(len(line.get_xdata()) > 0 for line in found) == marks
        assert len(ax.collections) == 1


def test_a_method_far_below_the_floor_does_not_hide_the_others():
    def curve(method, level):
        values = np.linspace(0, 10, 100) + level
        return Curve(("here",), method, {"return": band([values, values])}, 1, 1, 2, 0)

    fine, lost = curve("gs", 0.0), curve("bes", -1000.0)
    assert limits([fine, lost], ["return"], "linear")[0] < -1000
    low, high = limits([fine, lost], ["return"], "linear", floor=-5.0)
    assert -7 < low < -5
    assert 10 < high < 12
    assert limits([lost], ["return"], "linear", floor=-5.0) == limits([lost], ["return"], "linear")


def test_the_title_of_a_narrow_figure_is_not_cut_and_colours_are_kept(tmp_path):
    color = method_style("orthogonal-es").color

    def draw(ax):
        ax.plot([0, 1], [0, 1], color=color, lw=6)

    panel = Panel("here", "n = 5", "", draw)
    title = "Reinforcement learning: ablations on Ant with L = 20"
    write_figure(Figure("narrow", title, "", "", 1, [panel], []), tmp_path)
    image = Image.open(tmp_path / "narrow.png")
    assert image.mode == "P"
    pixels = np.asarray(image.convert("RGB"))
    assert (pixels[:60, -20:] == 255).all()
    assert (pixels == [int(color[i : i + 2], 16) for i in (1, 3, 5)]).all(axis=2).sum() > 500


def test_a_diverged_run_is_in_no_mean():
    outcome = made.linreg(seeds=3, rounds=10, diverge=DIVERGE)
    keys = ("num_samples", "num_directions")
    found = {
        (c.setting, c.method): c for c in curves(outcome.records, keys, series=["mse", "predicted"])
    }
    gs, bes = found[(5, 2), "gs"], found[(5, 2), "bes"]
    assert (gs.runs, gs.left_out, gs.n) == (3, 1, 2)
    assert np.isfinite(gs.bands["mse"].mean).all()
    assert (bes.n, bes.bands) == (0, {})
    kept = [
        r.series["mse"]
        for r in outcome.records
        if r.config["method"] == "gs"
        and (r.config["num_directions"], r.config["num_samples"]) == (2, 5)
        and r.config["seed"] != 1
    ]
    np.testing.assert_allclose(gs.bands["mse"].mean, np.mean(kept, axis=0))


def test_curves_come_in_the_order_of_the_figure():
    found = curves(made.dfo(seeds=1, rounds=2).records, ("objective", "dim"), series=["objective"])
    objectives = list(dict.fromkeys(c.setting[0] for c in found))
    assert objectives == ["sphere", "rosenbrock", "cigar", "hm"]
    assert [c.method for c in found[:6]] == list(made.SIX)


def test_agreements_are_counted_cell_by_cell():
    cells = [
        Cell("a", "gs", (0.1, 0.01), (0.1, 0.01), 1.0),
        Cell("a", "bes", (0.1, 0.1), (0.1, 0.01), 1.0),
        Cell("b", "gs", None, (0.1, 0.01), math.inf),
        Cell("b", "guided-es", (0.1, 0.01), None, 1.0),
    ]
    found = choices(cells)
    assert (found.both, found.spacing, found.rate, found.compared) == (1, 2, 1, 3)
    assert found.methods == ["GS", "BeS", "Guided ES"]
    assert [c and (c.chosen, c.paper, c.agrees) for c in found.rows[1][1]] == [
        ("all diverged", "0.1 · 0.01", False),
        None,
        ("0.1 · 0.01", "", None),
    ]


# Files


def test_csv_files_hold_the_exact_values(out):
    final = read(out / "tables/linreg-final.csv")
    assert [float(row["Mean"]) for row in final] == [0.1 + 0.2, math.inf]
    rows = read(out / "tables/hyperparameters-linreg.csv")
    cells = made.linreg(diverge=DIVERGE).cells
    assert len(rows) == len(cells) == 36
    for row, cell in zip(rows, cells, strict=True):
        assert (row["setting"], row["method"]) == (cell.setting, cell.method)
        chosen = (row["spacing"], row["learning_rate"])
        assert chosen == (("", "") if cell.chosen is None else tuple(map(repr, cell.chosen)))
        assert float(row["paper_spacing"]) == cell.paper[0]
        assert float(row["score"]) == cell.score
        assert row["agrees"] == ("yes" if cell.chosen == cell.paper else "no")
    claims = read(out / "tables/claims.csv")
    expected = [[o.study, *claim] for o in outcomes() for claim in o.claims]
    assert [list(row.values()) for row in claims] == expected


def test_curves_csv_repeats_the_figure(out):
    rows = read(out / "tables/curves-linreg.csv")
    assert len(rows) == 35 * 20  # one of the 36 curves has no finite run
    row = next(
        row
        for row in rows
        if (row["num_directions"], row["num_samples"], row["method"], row["round"])
        == ("6", "15", "bes", "20")
    )
    values = [
        r.series["loss"][-1]
        for r in outcomes()[0].records
        if (r.config["num_directions"], r.config["num_samples"]) == (6, 15)
        and r.config["method"] == "bes"
    ]
    assert float(row["loss_mean"]) == pytest.approx(np.mean(values), rel=1e-6)
    assert float(row["loss_sd"]) == pytest.approx(np.std(values, ddof=1), rel=1e-6)
    assert (row["n"], row["left_out"], row["iterations"]) == ("3", "0", "200")
    lost = next(r for r in rows if (r["num_directions"], r["num_samples"]) == ("2", "5"))
    assert (lost["method"], lost["n"], lost["left_out"]) == ("gs", "2", "1")


def test_long_curves_are_thinned_but_keep_their_end(tmp_path):
    outcome = made.linreg(seeds=1, rounds=4500, samples=(5,))
    write_report([outcome], tmp_path, command="x")
    rows = read(tmp_path / "tables/curves-linreg.csv")
    assert 4000 < len(rows) <= 8000 < 3 * 4 * 4500
    assert max(int(row["round"]) for row in rows) == 4500
    assert (tmp_path / "report.html").stat().st_size < 3e6


def test_figures_are_files_of_their_own(out):
    names = ["dfo", "linreg-loss", "linreg-mse", "timing"]
    assert sorted(p.stem for p in out.glob("figures/*.svg")) == names
    assert sorted(p.stem for p in out.glob("figures/*.png")) == names
    for path in out.glob("figures/*.svg"):
        root = ElementTree.parse(path).getroot()
        kinds = Counter(element.tag.rpartition("}")[2] for element in root.iter())
        assert kinds["path"] > 10
        assert kinds["text"] > 10
        assert kinds["metadata"] == 0
        ids = {element.get("id") for element in root.iter()} - {None}
        hrefs = {e.get("{http://www.w3.org/1999/xlink}href") for e in root.iter()} - {None}
        assert {href[1:] for href in hrefs} <= ids


def test_the_same_outcomes_give_the_same_bytes(tmp_path):
    for name in "ab":
        small = [
            made.linreg(seeds=2, rounds=9, directions=(2,), samples=(5,)),
            made.dfo(seeds=2, rounds=9, objectives=("hm",)),
            made.timing(),
        ]
        write_report(small, tmp_path / name, command="x")
    files = [
        {p.relative_to(tmp_path / name): p.read_bytes() for p in (tmp_path / name).rglob("*.*")}
        for name in "ab"
    ]
    assert len(files[0]) > 15
    assert files[0].keys() == files[1].keys()
    assert [path for path in files[0] if files[0][path] != files[1][path]] == []


# Page


def test_links_in_a_folder_are_not_followed(tmp_path):
    """What a stranger's folder may hold under the names that a report has."""
    precious, elsewhere, folder = (tmp_path / name for name in ("precious", "elsewhere", "out"))
    precious.write_text("mine")
    elsewhere.mkdir()
    (folder / "figures").mkdir(parents=True)
    (folder / "tables").symlink_to(elsewhere)
    (folder / ".report.html.new").symlink_to(precious)
    names = [path.name for path in write_and_list(tmp_path / "first", "figures")]
    for name in names:
        (folder / "figures" / name).symlink_to(precious)
    with pytest.raises(CheckpointError, match="symbolic link, which is not followed"):
        write_and_list(folder, "tables")
    assert precious.read_text() == "mine"
    (folder / "tables").unlink()
    write_and_list(folder, "tables")
    assert precious.read_text() == "mine"
    assert not list(elsewhere.iterdir())


def write_and_list(folder, part):
    write_report(outcomes()[2:3], folder, command=COMMAND)
    found = list((folder / part).iterdir())
    assert found
    return found


def test_the_page_is_self_contained(page):
    assert "<script" not in page
    assert len(page) < 3e6
    loads = re.findall(r'(?:src|href)="([^"]*)"', page) + re.findall(r"url\(([^)]*)\)", page)
    outside = [at for at in loads if not at.startswith(("#", "figures/", "tables/", "data:,"))]
    assert outside == []
    assert "http" not in page
    assert "@import" not in page


def test_identifiers_are_unique_and_links_have_ends(page):
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert [name for name, count in Counter(ids).items() if count > 1] == []
    references = re.findall(r'href="#([^"]*)"', page) + re.findall(r"url\(#([^)]*)\)", page)
    assert len(references) > 100
    assert set(references) <= set(ids)


def test_figures_follow_the_colours_of_the_page(page):
    body = page[page.index("<body>") :]
    drawn = set(re.findall(r"#[0-9a-f]{6}\b", body))
    assert drawn == set()
    assert "var(--m-bes)" in body
    assert set(re.findall(r"var\((--m-[a-z-]+)\)", body)) <= {
        v[0] for v in css_variables().values()
    }


def test_the_page_says_what_was_left_out(page):
    assert "GS at L = 2, N = 5: 1 of 3 runs diverged and is left out" in page
    assert "BeS at L = 2, N = 5: all 3 runs diverged" in page
    assert "n = 0 to 3" in page


def test_settings_without_a_run_are_said(tmp_path):
    outcome = made.dfo(seeds=1, rounds=3, objectives=("cigar",))
    kept = [r for r in outcome.records if r.config["num_directions"] != 10]
    kept += [  # another objective keeps the column
        r._replace(config={**r.config, "objective": "hm"})
        for r in outcome.records
        if r.config["num_directions"] == 10
    ]
    cells = [
        cell._replace(chosen=None) if cell.setting == "cigar, d=100, L=10" else cell
        for cell in outcome.cells
    ]
    path = write_report([replace(outcome, records=kept, cells=cells)], tmp_path, command="x")
    text = path.read_text(encoding="utf-8")
    titles = re.findall(r'class="panel">\s*<p>([^<]*) <span>(n = \d)', text)
    assert titles[:3] == [
        ("cigar, d = 10, L = 1", "n = 1"),
        ("cigar, d = 100, L = 10", "n = 0"),
        ("cigar, d = 100, L = 100", "n = 1"),
    ]
    assert text.count(">no finite run</text>") == 2
    assert text.count(">every choice of the grid diverged:</text>") == 1
    assert (
        "cigar, d=100, L=10: every choice of the grid search diverged, and no run was made, for "
        "GS, BeS, GS-shrinkage, BeS-shrinkage, Orthogonal ES, Guided ES."
    ) in text


def test_long_evidence_is_folded(tmp_path):
    outcome = made.linreg(seeds=1, rounds=2, directions=(2,), samples=(5,))
    items = [f"GS vs BeS (L=2, N={n}): ratio 0.98 [0.91, 1.05], p=0.1" for n in range(9)]
    claim = outcome.claims[0]._replace(evidence="shown in 9 of 9. " + "; ".join(items))
    path = write_report([replace(outcome, claims=[claim])], tmp_path, command="x")
    text = path.read_text(encoding="utf-8")
    assert "All 9 comparisons" in text
    assert all(f"<li>{item}</li>" in text for item in items)
    assert read(tmp_path / "tables/claims.csv")[0]["evidence"] == claim.evidence


def test_missing_seeds_are_said(tmp_path):
    outcome = made.linreg(seeds=3, rounds=5, directions=(2,), samples=(5,))
    path = write_report([replace(outcome, records=outcome.records[1:])], tmp_path, command="x")
    text = path.read_text(encoding="utf-8")
    assert "All curves have 3 runs but 1 (GS at L = 2, N = 5: 2)." in text


def test_counts_claims_and_facts_are_on_the_page(page):
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page[page.index("<body>") :]))
    assert "2 hold 1 does not hold 1 undecided at this number of runs 1 not run" in text
    assert "the paper’s pair in 12 of 36 cells" in text
    assert "&lt;exactly as the Lemma &amp; we say&gt;" in page
    assert COMMAND.replace("&", "&amp;") in re.sub(r"</?span>", "", page)
    assert "reporting seeds 3: 0–2" in text
    assert "dim = 100" in text
    for name in ("numpy", "numba", "Python", "gensmooth"):
        assert re.search(rf"{name} \d+\.\d+", text), name


def test_odd_outcomes_are_written_too(tmp_path):
    """No runs, one run, no baseline, everything diverged, names that are no file names."""
    linreg = made.linreg(seeds=1, rounds=1, methods=("gs",), directions=(2,), samples=(5,))
    lost = made.linreg(
        seeds=1, rounds=4, methods=("gs",), directions=(2,), samples=(5,), diverge=[("gs", 2, 5, 0)]
    )
    timing = made.timing(methods=made.SIX[1:])
    config = {"objective": "nevergrad:a/b", "method": "new one", "dim": 3, "num_directions": 1}
    negative = RunRecord(config, {"objective": [-1.0, -2.0]}, -2.0, False, 0.0)
    empty = RunRecord({**config, "method": "gs"}, {"objective": []}, math.inf, True, 0.0)
    dfo = replace(made.dfo(seeds=1, rounds=1), records=[negative, empty], cells=())
    table = made.linreg().tables[0]._replace(name="../../up")
    odd = replace(made.unknown(), tables=[table, table])
    write_report([linreg, timing, dfo, odd], tmp_path / "a", command="x")
    write_report([replace(lost, records=[]), lost, made.unknown()], tmp_path / "b", command="x")
    write_report([], tmp_path / "c", command="x")
    text = (tmp_path / "a/report.html").read_text(encoding="utf-8")
    assert "There is no time of GS at L = 2" in text
    assert {"up.csv", "up-2.csv"} <= {p.name for p in (tmp_path / "a/tables").iterdir()}
    assert "no finite run" in (tmp_path / "b/report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("fresh_interpreters")
def test_a_missing_extra_names_the_pip_line():
    code = (
        "import sys; sys.modules['jinja2'] = None\n"
        "from gensmooth.lab import write_report\n"
        "try: write_report([], '.', command='x')\n"
        "except ImportError as error: print(error)"
    )
    assert run(code) == "The report needs jinja2: pip install 'gensmooth[report]'\n"


# Style


def test_every_method_has_a_style_of_its_own():
    drawn = assign_styles(list(METHODS))
    known = {name: style for name, style in drawn.items() if method_style(name) == style}
    assert {name for name in METHODS if METHODS[name].in_paper} <= set(known)
    for part in ("color", "dark", "dash", "marker"):
        assert len({getattr(style, part) for style in known.values()}) == len(known), part
    assert len({(style.color, style.dash) for style in drawn.values()}) == len(METHODS)
    assert len({(style.dark, style.dash) for style in drawn.values()}) == len(METHODS)
    assert method_style("unheard of") not in drawn.values()


# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
BLINDNESS = {
    "none": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color):
    c = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    t = XYZ @ np.clip(rgb, 0, 1) / XYZ.sum(axis=1)
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("which", ["color", "dark"])
@pytest.mark.parametrize("kind", BLINDNESS)
def test_the_papers_methods_differ_for_colour_blind_readers(kind, which):
    seen = [
        lab(np.array(BLINDNESS[kind]) @ linear(getattr(method_style(name), which)))
        for name in made.SIX
    ]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 15


def test_matplotlib_is_left_as_it_was(tmp_path):
    code = """
        import sys
        from pathlib import Path
        import matplotlib as mpl
        import report_outcomes as made
        from gensmooth.lab.report.style import drawing
        from gensmooth.lab import write_report
        names = [name for name in mpl.rcParams if "backend" not in name]
        before = [mpl.rcParams[name] for name in names]
        with drawing():
            assert mpl.rcParams["svg.hashsalt"] == "gensmooth"
        write_report([made.timing()], Path(sys.argv[1]), command="x")
        assert [mpl.rcParams[name] for name in names] == before
        assert "matplotlib.pyplot" not in sys.modules
    """
    run(dedent(code), str(tmp_path))


# Browser

MEASURE = """(() => {
  const inside = e => e.closest('.scroll, pre, .skip') || e.closest('.claims thead');
  const all = [...document.body.querySelectorAll('*')].filter(e => !inside(e));
  const wide = all.filter(e => e.getBoundingClientRect().right > innerWidth + 1);
  const panels = [...document.querySelectorAll('.panel svg')].map(svg => {
    const box = svg.getBoundingClientRect();
    const paths = [...svg.querySelectorAll('path')];
    const drawn = paths.some(p => p.getTotalLength() > 20);
    return box.width > 150 && box.height > 100 && drawn;
  });
  const text = document.querySelector('.panel svg text');
  const grid = document.querySelector('.panels');
  return {
    overflow: document.documentElement.scrollWidth - innerWidth,
    wide: wide.map(e => e.outerHTML.slice(0, 80)),
    panels: panels.length,
    empty: panels.filter(good => !good).length,
    columns: getComputedStyle(grid).gridTemplateColumns.split(' ').length,
    ink: getComputedStyle(text).fill,
    line: getComputedStyle(document.querySelector('.panel svg path[style*="--m-bes"]')).stroke,
    ground: getComputedStyle(document.body).backgroundColor,
  };
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = chromium.find()
    if path is None:
        pytest.skip(f"no Chromium found (looked for {', '.join(chromium.NAMES)}; set CHROMIUM)")
    with chromium.Chromium(path, tmp_path_factory.mktemp("profile")) as found:
        yield found


def contrast(one, other):
    def luminance(color):
        numbers = [int(n) for n in re.findall(r"\d+", color)[:3]]
        return XYZ[1] @ linear("#{:02x}{:02x}{:02x}".format(*numbers))

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("width", "columns"), [(1280, 3), (768, 2), (390, 1)])
def test_in_chromium(browser, out, width, columns, dark):
    browser.errors.clear()
    browser.requests.clear()
    browser.open(out / "report.html", width=width, dark=dark)
    found = browser.evaluate(MEASURE)
    assert browser.errors == []
    assert [url.rpartition("/")[2] for url in browser.requests] == ["report.html"]
    assert (found["overflow"], found["wide"]) == (0, [])
    assert (found["panels"], found["empty"]) == (
        9 + 9 + 12 + 3,
        0,
    )
    assert found["columns"] == columns
    assert contrast(found["ink"], found["ground"]) > 4.5
    assert contrast(found["line"], found["ground"]) > 3
    assert contrast(found["ground"], "rgb(0, 0, 0)" if dark else "rgb(255, 255, 255)") < 1.3


def test_the_browser_would_tell(browser, tmp_path):
    """What the test above finds absent is found when it is there."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body><div style='width: 3000px'>wide</div><img src='missing.png'>"
        "<script>console.error('one'); throw new Error('two')</script>"
    )
    browser.errors.clear()
    browser.open(bad, width=390)
    assert browser.evaluate("document.documentElement.scrollWidth") >= 3000
    text = " ".join(browser.errors)
    assert all(sign in text for sign in ("one", "two", "ERR_FILE_NOT_FOUND"))
    browser.errors.clear()


def test_the_lines_of_a_custom_study_can_be_told_apart():
    configs = [{"method": name, "dim": 3} for name in ("wide", "narrow", "gs")]
    records = [RunRecord(config, {"value": [2.0, 1.0]}, 1.0, False, 0.0) for config in configs]
    items = legend(curves(records, ["dim"], series=["value"]))
    assert {item.label for item in items} == {"wide", "narrow", "GS"}
    assert len({item.color for item in items}) == 3
    with pytest.raises(ValueError, match="has no 'method', which its curve needs"):
        curves([RunRecord({"dim": 3}, {}, 1.0, False, 0.0)], ["dim"], series=["value"])


def test_the_page_of_a_custom_study_has_its_title(tmp_path):
    outcome = made.linreg(seeds=2, rounds=2, directions=(2,), samples=(5,))
    outcome = replace(outcome, study="mine", title="My own", claims=[])
    text = write_report([outcome], tmp_path, command="x").read_text(encoding="utf-8")
    assert "<h1>My own</h1>" in text
    assert "Gao and Sener" not in text
