"""Runs on parameters in a structure are the runs on their flat array, bit for bit."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import fields
from gensmooth.evaluators import Objective, Processes, Serial, Threads
from gensmooth.trees import Tree

W, B = np.linspace(-1, 1, 6).reshape(2, 3), 0.5
CENTRE = np.arange(6.0).reshape(2, 3) / 4


@dataclass(frozen=True)
class Model:
    w: Any
    b: Any


class Named(NamedTuple):
    w: Any
    b: Any


STARTS = {
    "dict": {"w": W, "b": B},
    "dataclass": Model(W, B),
    "named tuple": Named(W, B),
    "tuple": (W, B),
    "list": [W, B],
}


def parts(p: Any) -> tuple[Any, Any]:
    if isinstance(p, dict):
        return p["w"], p["b"]
    return (p.w, p.b) if hasattr(p, "w") else (p[0], p[1])


def of_parts(w: Any, b: Any, rng: Any = None, factor: float = 1.0) -> float:
    noise = 0.0 if rng is None else 0.1 * rng.standard_normal()
    return factor * float(np.square(w - CENTRE).sum() + np.square(b - 2)) + noise


def loss(p: Any, *more: Any) -> float:
    return of_parts(*parts(p), *more)


def flat_loss(x: Any, *more: Any) -> float:
    return of_parts(x[:6].reshape(2, 3), float(x[6]), *more)


def stacked(p: Any) -> Any:
    return np.square(p["w"] - CENTRE).sum((1, 2)) + np.square(p["b"] - 2)


def stacked_flat(x: Any) -> Any:
    return np.square(x[:, :6].reshape(-1, 2, 3) - CENTRE).sum((1, 2)) + np.square(x[:, 6] - 2)


def flatten(p: Any) -> np.ndarray:
    w, b = parts(p)
    return np.append(np.ravel(w), b)


FLAT = flatten(STARTS["dict"])


def same(structured: gs.Result, plain: gs.Result) -> None:
    """Of a run on a structure and one on the array."""
    assert flatten(structured.x).tobytes() == plain.x.tobytes()
    assert flatten(structured.best_x).tobytes() == plain.best_x.tobytes()
    assert structured.state is not None
    assert plain.state is not None
    assert structured.state.x.tobytes() == plain.state.x.tobytes()
    for one, other in zip(structured.history, plain.history, strict=True):
        np.testing.assert_array_equal(one, other)
    for name in ("fun", "best_fun", "nfev", "nit", "status", "reason", "message", "error", "noise"):
        assert structured[name] == plain[name], name


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("method", ["auto", "bes", "guided-es", "snes", "cma-es"])
def test_a_structure_is_its_array(kind: str, method: str):
    if method == "cma-es":
        pytest.importorskip("cmaes")
    options: Any = {"method": method, "budget": 150, "seed": 2}
    found = gs.minimize(loss, STARTS[kind], **options)
    assert type(found.x) is type(found.best_x) is type(STARTS[kind])
    assert [type(each) for each in parts(found.x)] == [np.ndarray, float]
    same(found, gs.minimize(flat_loss, FLAT, **options))
    assert loss(found.x) == found.fun
    assert loss(found.best_x) == found.best_fun


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bounds": (
        {"bounds": {"w": (-1, 1), "b": (None, 1.5)}},
        {"bounds": ([-1] * 6 + [-np.inf], [1] * 6 + [1.5])},
    ),
    "one pair of bounds": ({"bounds": (-1, 1)}, {"bounds": (-1, 1)}),
    "x_scale": (
        {"x_scale": {"w": CENTRE + 1, "b": 2.0}},
        {"x_scale": np.append(CENTRE + 1, 2.0)},
    ),
    "one x_scale": ({"x_scale": 0.5}, {"x_scale": 0.5}),
    "log_scale": ({"log_scale": {"w": False, "b": True}}, {"log_scale": [False] * 6 + [True]}),
    "noise": ({"samples": "independent"}, {"samples": "independent"}),
    "shared": ({"samples": "shared", "num_samples": 2}, {"samples": "shared", "num_samples": 2}),
    "args": ({"args": (None, 3.0)}, {"args": (None, 3.0)}),
    "maximize": ({"args": (None, -1.0), "maximize": True},) * 2,
    "target": ({"target": 0.5},) * 2,
    "tolerance": ({"tolerance": 1e-3},) * 2,
    "optax-like": ({"optimizer": gs.momentum(0.01)},) * 2,
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options_may_have_the_structure(name: str):
    structured, plain = OPTIONS[name]
    found = gs.minimize(loss, STARTS["dict"], budget=200, seed=1, **structured)
    same(found, gs.minimize(flat_loss, FLAT, budget=200, seed=1, **plain))


def test_an_objective_of_stacked_points_has_stacked_arrays():
    options: Any = {"vectorized": 4, "budget": 200, "seed": 1}
    found = gs.minimize(stacked, STARTS["dict"], **options)
    same(found, gs.minimize(stacked_flat, FLAT, **options))


def test_arrays_keep_their_type():
    seen = set()

    def typed(p: Any) -> float:
        seen.add((p["half"].dtype.name, p["full"].dtype.name, type(p["number"])))
        return float(sum(np.square(each).sum() for each in p.values()))

    x0 = {"half": np.ones(2, np.float32), "full": np.ones(2), "number": 1.0}
    res = gs.minimize(typed, x0, budget=60, seed=0)
    assert seen == {("float32", "float64", float)}
    assert res.x["half"].dtype == np.float32
    assert res.state is not None
    assert res.state.x.dtype == np.float64
    assert typed(res.x) == res.fun


def test_single_precision_is_searched_in_single_precision():
    x0 = {"w": W.astype(np.float32), "b": np.float32(B)}
    options: Any = {"method": "bes", "budget": 100, "seed": 0}
    res = gs.minimize(loss, x0, **options)
    assert res.x["w"].dtype == res.x["b"].dtype == np.float32

    def of_array(x: Any) -> float:
        return of_parts(x[:6].reshape(2, 3), x[6])

    same(res, gs.minimize(of_array, FLAT.astype(np.float32), **options))


@pytest.mark.parametrize("x0", [[1.0, 2.0], (1, 2), [np.ones(2), np.ones(2)], [[1.0], [2.0]]])
def test_what_numpy_makes_an_array_of_stays_an_array(x0: Any):
    seen = []

    def of_array(x: Any) -> float:
        seen.append(x)
        return float((x**2).sum())

    res = gs.minimize(of_array, x0, budget=30, seed=0)
    assert type(res.x) is np.ndarray
    assert {each.shape for each in seen} == {np.shape(x0)}


# --- the gradient


@pytest.mark.parametrize("kind", STARTS)
def test_a_gradient_has_the_structure(kind: str):
    options: Any = {"num_directions": 5, "seed": 4, "bounds": (-1.2, 1.2)}
    found = gs.gradient(loss, STARTS[kind], **options)
    plain = gs.gradient(flat_loss, FLAT, **options)
    assert type(found.gradient) is type(STARTS[kind])
    assert flatten(found.gradient).tobytes() == plain.gradient.tobytes()
    assert found[1:] == plain[1:]


def test_a_gradient_within_bounds_of_its_structure():
    found = gs.gradient(loss, STARTS["dict"], bounds={"w": (-1, 1), "b": (0, 1)}, seed=0)
    limits = ([-1] * 6 + [0], [1] * 7)
    plain = gs.gradient(flat_loss, FLAT, bounds=limits, seed=0)
    assert flatten(found.gradient).tobytes() == plain.gradient.tobytes()


# --- ask and tell


SEARCHES: dict[str, Any] = {
    "bes": lambda: gs.RandomSearch(
        method="bes", num_directions=4, spacing=0.1, optimizer=gs.sgd(0.01)
    ),
    "auto": lambda: gs.Pilot(budget=150),
    "snes": lambda: gs.search("snes", STARTS["dict"]),
    "cma-es": lambda: gs.search("cma-es", STARTS["dict"]),
}


@pytest.mark.parametrize("kind", ["dict", "dataclass"])
@pytest.mark.parametrize("name", SEARCHES)
def test_ask_and_tell_are_minimize(name: str, kind: str):
    if name == "cma-es":
        pytest.importorskip("cmaes")
    chosen: Any = {"method": name}
    if name == "bes":
        chosen |= {"num_directions": 4, "spacing": 0.1, "optimizer": gs.sgd(0.01)}
    expected = gs.minimize(loss, STARTS[kind], budget=150, seed=6, **chosen)
    search = SEARCHES[name]()
    state = search.init(STARTS[kind], seed=6)
    for _ in range(expected.nit):
        batch = search.ask(state)
        points = list(batch.points())
        assert all(type(point) is type(STARTS[kind]) for point in points)
        for index in (0, len(batch) - 1):
            assert flatten(batch.point(index)).tobytes() == flatten(points[index]).tobytes()
        state, _ = search.tell(state, batch, [loss(point) for point in points])
    assert expected.state is not None
    assert state.x.tobytes() == expected.state.x.tobytes()
    assert type(state.parameters) is type(STARTS[kind])
    assert flatten(state.parameters).tobytes() == state.x.tobytes()
    assert state.tree == expected.state.tree == Tree.of(STARTS[kind])[1]


def test_a_block_of_points_is_stacked():
    search = SEARCHES["bes"]()
    batch = search.ask(search.init(STARTS["dict"], seed=0))
    block = batch.block(1, 4)
    assert (block["w"].shape, block["b"].shape) == ((3, 2, 3), (3,))
    for row, point in enumerate(list(batch.points())[1:4]):
        assert flatten(point).tobytes() == np.append(block["w"][row], block["b"][row]).tobytes()
    values = [loss(point) for point in batch.points()]
    assert set(search.estimate(batch, values).gradient) == {"w", "b"}


def test_of_an_array_the_parameters_are_the_array():
    state = SEARCHES["bes"]().init(FLAT, seed=0)
    assert state.tree is None
    assert state.parameters is state.x


@pytest.mark.parametrize("evaluator", [Serial(), Threads(2)])
def test_evaluators_here_have_the_structure(evaluator: Any):
    search = SEARCHES["bes"]()
    state = search.init(STARTS["dict"], seed=0)
    batch = search.ask(state)
    with evaluator.session(search, Objective(loss)) as session:
        values = session.evaluate(state, batch).values
    assert values.tolist() == [loss(point) for point in batch.points()]
    assert Objective(loss).value(batch, 2) == values[2]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes(2) as workers:
        yield workers


def test_evaluators_elsewhere_want_the_array(processes: Processes):
    search = SEARCHES["bes"]()
    state = search.init(STARTS["dict"], seed=0)
    flat, tree = Tree.of(STARTS["dict"])
    plain = search.init(flat, seed=0)
    with processes.session(search, Objective(tree.objective(loss))) as session:
        with pytest.raises(ValueError, match=r"tree\.objective"):
            session.evaluate(state, search.ask(state))
        values = session.evaluate(plain, search.ask(plain)).values
    assert values.tolist() == [loss(point) for point in search.ask(state).points()]


@pytest.mark.parametrize("bounds", [{"w": (0, 1), "b": (0, 1)}, ({"w": 0, "b": 0}, 1)])
def test_a_search_takes_bounds_of_arrays(bounds: Any):
    search = replace(gs.Pilot(budget=100), bounds=bounds)
    with pytest.raises(ValueError, match=r"tree\.bounds"):
        search.init(STARTS["dict"], seed=0)
    _, tree = Tree.of(STARTS["dict"])
    search = replace(search, bounds=tree.bounds(bounds))
    state = search.init(STARTS["dict"], seed=0)
    assert min(state.x) == 0


# --- workers, checkpoints, files


@pytest.mark.parametrize("kind", ["dict", "dataclass"])
@pytest.mark.parametrize("method", ["auto", "bes"])
def test_workers_do_not_matter(kind: str, method: str, processes: Processes):
    options: Any = {"method": method, "samples": "independent", "budget": 120, "seed": 3}
    alone = gs.minimize(loss, STARTS[kind], **options)
    plain = gs.minimize(flat_loss, FLAT, **options)
    for workers in (Threads(2), processes, map):
        found = gs.minimize(loss, STARTS[kind], workers=workers, **options)
        assert type(found.x) is type(alone.x)
        same(found, plain)


@pytest.mark.parametrize("kind", STARTS)
@pytest.mark.parametrize("method", ["auto", "bes"])
def test_stopped_and_resumed_is_uninterrupted(kind: str, method: str, tmp_path: Any):
    options: Any = {"method": method, "budget": 150, "seed": 3}
    options |= {"bounds": (-1, 1), "log_scale": (_some(STARTS[kind]) if method == "auto" else None)}
    expected = gs.minimize(loss, STARTS[kind], **options)

    def stop(now: Any) -> None:
        if now.info.step == 4:
            raise KeyboardInterrupt

    folder = tmp_path / "run"
    part = gs.minimize(loss, STARTS[kind], folder=folder, callback=stop, **options)
    assert (part.reason, type(part.x)) == ("interrupted", type(STARTS[kind]))
    again = gs.resume(folder, loss)
    assert again.state is not None
    assert type(again.x) is type(STARTS[kind])
    assert flatten(again.x).tobytes() == flatten(expected.x).tobytes()
    assert (again.fun, again.nfev) == (expected.fun, expected.nfev)
    assert again.state.tree == Tree.of(STARTS[kind])[1]
    by_minimize = gs.minimize(loss, STARTS[kind], folder=folder, **options)  # told again
    assert flatten(by_minimize.x).tobytes() == flatten(expected.x).tobytes()


def _some(start: Any) -> Any:
    """The number on a log scale, in any structure."""
    if isinstance(start, dict):
        return {"w": False, "b": True}
    return type(start)(False, True) if hasattr(start, "w") else [False, True]


def test_the_same_command_goes_on_and_another_structure_does_not(tmp_path: Any):
    options: Any = {"budget": 100, "seed": 0, "folder": tmp_path / "run"}
    gs.minimize(loss, STARTS["dict"], callback=lambda now: now.info.step == 1, **options)
    with pytest.raises(gs.CheckpointError, match="`structure`"):
        gs.minimize(loss, STARTS["dataclass"], **options)
    with pytest.raises(gs.CheckpointError, match="`structure`"):
        gs.minimize(flat_loss, FLAT, **options)


def test_a_class_without_a_name_is_passed_again(tmp_path: Any):
    @dataclass
    class Local:
        w: Any
        b: Any

    start, folder = Local(W, B), tmp_path / "run"
    expected = gs.minimize(loss, start, budget=150, seed=0)
    gs.minimize(loss, start, budget=100, seed=0, folder=folder)
    with pytest.raises(gs.CheckpointError, match=r"class '.*Local'.*x0="):
        gs.resume(folder, loss)
    for other in (Local(W, W), Local(W.T, B), Local(W, np.float32(B)), {"w": W}, W):
        with pytest.raises(gs.CheckpointError, match="`x0`"):
            gs.resume(folder, loss, x0=other)
    found = gs.resume(folder, loss, x0=Local(0 * W, 0.0), budget=150)
    assert isinstance(found.x, Local)
    assert found.nit > 0
    assert expected.nit > 0
    repeated = gs.minimize(loss, start, budget=150, seed=0, folder=tmp_path / "other")
    assert flatten(repeated.x).tobytes() == flatten(expected.x).tobytes()


def test_a_run_on_an_array_takes_no_structure_when_it_goes_on(tmp_path: Any):
    gs.minimize(flat_loss, FLAT, budget=50, seed=0, folder=tmp_path / "run")
    with pytest.raises(gs.CheckpointError, match="omit `x0`"):
        gs.resume(tmp_path / "run", flat_loss, x0=STARTS["dict"])


def test_a_folder_whose_structure_does_not_fit_is_refused(tmp_path: Any):
    from gensmooth.runs.config import checksum

    folder = tmp_path / "run"
    gs.minimize(loss, STARTS["dict"], budget=50, seed=0, folder=folder)
    path = folder / "config.json"
    for change in ({"shape": [2, 4]}, {"dtype": "int64"}):
        config = json.loads(path.read_text())
        config["search"]["structure"]["children"][0] |= change
        config["sha256"] = checksum(config)
        bad = tmp_path / next(iter(change))
        bad.mkdir()
        (bad / "config.json").write_text(json.dumps(config))
        with pytest.raises(gs.CheckpointError, match="structure of `x0`"):
            gs.resume(bad, loss)


@pytest.mark.parametrize("kind", STARTS)
def test_a_result_is_saved_by_name_and_read_again(kind: str, tmp_path: Any):
    res = gs.minimize(loss, STARTS[kind], budget=60, seed=0)
    res.save(tmp_path / "best.json")
    found = json.loads((tmp_path / "best.json").read_text())
    named = kind in ("dict", "dataclass", "named tuple")
    assert (found["x"]["b"] if named else found["x"][1]) == parts(res.x)[1]
    loaded = gs.load(tmp_path / "best.json")
    assert type(loaded.x) is (dict if named else type(res.x))
    assert flatten(loaded.x).tobytes() == flatten(res.x).tobytes()
    assert flatten(loaded.best_x).tobytes() == flatten(res.best_x).tobytes()
    if named:
        found["x"]["w"] = found["x"]["w"][:1]
    else:
        found["x"][0] = 1.0
    found.pop("sha256")
    (tmp_path / "bad.json").write_text(json.dumps(fields.seal(found)))  # forged, not damaged
    with pytest.raises(gs.CheckpointError, match=r"not a result that .*: (?!it is damaged)"):
        gs.load(tmp_path / "bad.json")


def test_single_precision_is_read_again_to_the_bit(tmp_path: Any):
    x0 = {"w": W.astype(np.float32), "b": B, "deep": [(np.ones(2),)]}
    res = gs.minimize(lambda p: loss(p) + float(p["deep"][0][0].sum() ** 2), x0, budget=60, seed=0)
    res.save(tmp_path / "best.json")
    loaded = gs.load(tmp_path / "best.json")
    assert loaded.x["w"].dtype == np.float32
    assert loaded.x["w"].tobytes() == res.x["w"].tobytes()
    assert type(loaded.x["deep"][0]) is tuple


def test_a_callback_sees_the_structure():
    seen = []
    res = gs.minimize(
        loss,
        STARTS["dict"],
        budget=100,
        seed=0,
        method="bes",
        callback=lambda now: seen.append(now.x),
    )
    assert len(seen) == res.nit
    assert flatten(seen[-1]).tobytes() == flatten(res.x).tobytes()
    assert res.state is not None
    search = gs.RandomSearch(method="bes", num_directions=3, spacing=0.1)
    assert set(search.ask(res.state._replace(sent=())).point(0)) == {"w", "b"}


def test_results_do_not_share_memory():
    res = gs.minimize(loss, STARTS["dict"], budget=100, seed=0)
    assert res.state is not None
    assert not np.shares_memory(res.x["w"], res.state.x)
    assert not np.shares_memory(res.x["w"], res.best_x["w"])
    assert STARTS["dict"]["w"] is W
    assert W[0, 0] == -1


def test_a_failing_objective_tells_what_it_found():
    def fails(p: Any) -> float:
        if p["b"] > 1.9:
            raise ArithmeticError("too far")
        return loss(p)

    with pytest.raises(gs.EvaluationError, match="too far") as caught:
        gs.minimize(fails, STARTS["dict"], budget=1000, seed=0)
    assert set(caught.value.result.x) == {"w", "b"}  # pyright: ignore


@pytest.mark.parametrize(
    ("x0", "more", "error", "words"),
    [
        ({}, {}, ValueError, "at least one entry"),
        ({"w": W, "n": 3}, {}, TypeError, r"x0\['n'\] is 3, which holds integers"),
        ({"w": W, "name": "mlp"}, {}, TypeError, r"x0\['name'\]"),
        ({0: W}, {}, TypeError, "strings as keys"),
        ({"w": W}, {"bounds": {"v": (0, 1)}}, ValueError, "`bounds` must .* structure of x0"),
        ({"w": W}, {"bounds": (np.zeros((2, 3)), 1)}, ValueError, "structure of x0"),
        ({"w": W}, {"x_scale": {"w": 1.0, "v": 1.0}}, ValueError, "`x_scale` must"),
        ({"w": W}, {"x_scale": {"w": -1.0}}, ValueError, "`x_scale` must be positive"),
        ({"w": W}, {"log_scale": {"w": 1}}, ValueError, "`log_scale` must be True"),
        ({"w": W}, {"log_scale": {"v": True}}, ValueError, "`log_scale` must"),
        ([{"w": W}, None], {}, TypeError, r"x0\[1\]"),
    ],
)
def test_bad_input_is_told_before_anything_is_evaluated(
    x0: Any, more: Any, error: type[Exception], words: str
):
    def never(_: Any) -> float:
        pytest.fail("it was called")

    with pytest.raises(error, match=words):
        gs.minimize(never, x0, **more)
    if "bounds" in more or not more:
        with pytest.raises(error, match=words):
            gs.gradient(never, x0, **more)
    if not more:
        with pytest.raises(error, match=words):
            SEARCHES["bes"]().init(x0)


def test_low_rank_directions_know_the_matrices_of_a_structure():
    x0 = {"w": np.ones((4, 3)), "b": np.zeros(3)}
    _, tree = Tree.of(x0)

    def bowl(p: Any) -> float:
        return float(np.square(p["w"]).sum() + np.square(p["b"] - 1).sum())

    family = gs.LowRank(rank=1, shape=tree.shapes)
    res = gs.minimize(bowl, x0, directions=family, budget=600, seed=0)
    assert res.fun < 0.5 * bowl(x0)
    found = gs.minimize(bowl, x0, method="low-rank", budget=600, seed=0)  # told by the structure
    assert flatten(found.x).tobytes() == flatten(res.x).tobytes()
    told, given = (
        gs.gradient(bowl, x0, directions=each, seed=0).gradient for each in (gs.LowRank(), family)
    )
    assert np.array_equal(told["w"], given["w"])
    search = gs.RandomSearch(gs.LowRank(), num_directions=4, spacing=0.1)
    state = search.init(x0, seed=0)
    batch = search.ask(state)
    assert np.linalg.matrix_rank(batch.point(1)["w"] - x0["w"], tol=1e-9) == 1
    search.tell(state, batch, [bowl(point) for point in batch.points()])


def test_a_page_has_no_shell_command_for_a_structure(tmp_path: Any):
    from gensmooth.lab.run_page.command import command_of

    gs.minimize(loss, STARTS["dict"], budget=50, seed=0, folder=tmp_path / "run")
    gs.minimize(flat_loss, FLAT, budget=50, seed=0, folder=tmp_path / "flat")
    for name, word in (("run", "mkdir again && cp"), ("flat", "gensmooth minimize")):
        config = json.loads((tmp_path / name / "config.json").read_text())
        assert command_of(config, tmp_path / name, tmp_path).startswith(word)


def test_a_function_may_be_flattened_by_hand():
    flat, tree = Tree.of(STARTS["dict"])
    found = gs.minimize(tree.objective(loss), flat, budget=50, seed=0)
    same(gs.minimize(loss, STARTS["dict"], budget=50, seed=0), found)
