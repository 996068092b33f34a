"""Parameters in a structure: one flat array and back."""

import json
from collections import OrderedDict, namedtuple
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import pytest

import gensmooth as gs
from gensmooth.parameters import is_tree
from gensmooth.trees import Tree, plain


@dataclass
class Layer:
    weight: Any
    bias: Any


Pair = namedtuple("Pair", "first second")

STRUCTURES = [
    {"w": np.ones((2, 3)), "b": np.zeros(3)},
    {"w": np.ones((2, 3), np.float32), "b": np.zeros(3, np.float32)},
    {"mixed": np.ones(2, np.float32), "wide": np.ones(2), "number": 3.5},
    [np.ones((2, 2)), np.ones(3)],
    (np.ones((2, 2)), [{"a": np.ones(1)}, 2.0]),
    Layer(np.ones((4, 2)), np.zeros(4)),
    {"layers": [Layer(np.ones((2, 2)), np.ones(2)), Layer(np.ones(1), 0.5)], "0": np.ones(())},
    Pair(np.ones(2), 4.0),
    Pair(1.0, 2.0),
    {"numbers": [1.0, 2.0, 3.0], "same": [np.ones(2), np.ones(2)], "none": (), "no": np.ones(0)},
    {"scalar": np.float32(2), "swapped": np.ones(2, ">f8")},
]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in leaves(child)]
    if isinstance(value, Layer):
        return leaves([value.weight, value.bias])
    if isinstance(value, list | tuple):
        return [leaf for child in value for leaf in leaves(child)]
    return [value]


def kinds(value: Any) -> Any:
    """Everything but the numbers."""
    if isinstance(value, dict):
        return dict, {name: kinds(child) for name, child in value.items()}
    if isinstance(value, Layer):
        return Layer, kinds(value.weight), kinds(value.bias)
    if isinstance(value, list | tuple):
        return type(value), [kinds(child) for child in value]
    return np.shape(value), type(value) if isinstance(value, float) else value.dtype.name


@pytest.mark.parametrize("value", STRUCTURES, ids=range(len(STRUCTURES)))
def test_a_structure_comes_back_with_its_types_shapes_and_numbers(value: Any):
    assert is_tree(value)
    flat, tree = Tree.of(value)
    assert flat.shape == (tree.size,)
    built = tree.build(np.arange(tree.size, dtype=flat.dtype))
    assert kinds(built) == kinds(value)
    numbers = np.concatenate([np.reshape(each, -1) for each in leaves(built)])
    assert np.array_equal(numbers, np.arange(tree.size))
    same = np.concatenate([np.reshape(each, -1) for each in leaves(tree.build(flat))])
    assert np.array_equal(same, np.concatenate([np.reshape(each, -1) for each in leaves(value)]))
    again = Tree.from_json(json.loads(json.dumps(tree.to_json())), trust=False)
    assert again == tree
    named = Tree.of_names(tree.to_json()).build(flat)
    assert json.dumps(plain(named)) == json.dumps(plain(tree.build(flat)))


def test_arrays_of_the_searchs_own_type_are_views():
    for value, views in zip(STRUCTURES[:3], (True, True, False), strict=True):
        flat, tree = Tree.of(value)
        built = leaves(tree.build(flat))
        assert np.shares_memory(built[0], flat) == views


def test_what_is_given_is_copied():
    value = {"w": np.ones(3)}
    flat, _ = Tree.of(value)
    assert not np.shares_memory(flat, value["w"])


def test_single_precision_stays_only_where_all_are():
    assert Tree.of(STRUCTURES[1])[0].dtype == np.float32
    assert Tree.of(STRUCTURES[2])[0].dtype == np.float64


def test_stacked_points_become_stacked_leaves():
    _, tree = Tree.of(STRUCTURES[0])
    built = tree.build(np.arange(18.0).reshape(2, 9))
    assert built["w"].shape == (2, 2, 3)
    assert built["b"][1].tolist() == [15, 16, 17]
    assert Tree.of({"a": 1.0})[1].build(np.arange(3.0)[:, None])["a"].tolist() == [0, 1, 2]


def test_what_is_one_array_is_no_tree():
    for value in (
        *(1.0, [1, 2], (1.0, 2.0), [[1, 2], [3, 4]], np.ones(3), [np.ones(2), np.ones(2)]),
        *([np.float64(1), 2.0], [np.ones(2), [3.0, 4.0]], [[1.0], [2.0, 3.0]], [], "text", None),
        *(Layer, Pair),
    ):
        assert not is_tree(value)


def test_a_list_that_contains_itself_is_no_tree():
    value: list[Any] = [1.0]
    value.append(value)
    assert not is_tree(value)


class Mine(list):
    pass


def test_kinds_of_mappings_and_lists_come_as_plain_ones():
    flat, tree = Tree.of(OrderedDict(b=np.ones(1), a=Mine([2.0])))
    built = tree.build(flat)
    assert (type(built), type(built["a"]), list(built)) == (dict, list, ["b", "a"])


@dataclass(frozen=True, kw_only=True)
class Computed:
    w: Any
    length: Any = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "length", float(np.linalg.norm(self.w)))


def test_a_dataclass_computes_what_it_computes():
    flat, tree = Tree.of(Computed(w=np.array([3.0, 4.0])))
    assert tree.size == 2
    assert tree.build(2 * flat).length == 10


@dataclass
class Unmakeable:
    w: Any
    how: InitVar[int]


def test_a_dataclass_that_needs_more_than_its_fields_is_refused():
    with pytest.raises(ValueError, match=r"cannot be rebuilt.*how"):
        Tree.of(Unmakeable(np.ones(2), 3))


# --- numbers that belong to a structure


def test_numbers_of_a_like_structure_are_laid_out_alike():
    _, tree = Tree.of(STRUCTURES[0])
    laid = tree.like("x_scale", {"b": 3.0, "w": np.arange(6.0).reshape(2, 3)})
    assert laid.tolist() == [0, 1, 2, 3, 4, 5, 3, 3, 3]
    assert tree.like("x_scale", 0.5) == 0.5
    nested = Tree.of({"layers": [{"w": np.ones(2), "b": 0.0}], "out": 1.0})[1]
    assert nested.like("x_scale", {"layers": 2.0, "out": 3.0}).tolist() == [2, 2, 2, 3]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"w": 1.0}, r"`x_scale` must be a number or have the structure of x0.*\['w', 'b'\]"),
        ({"w": 1.0, "b": 1.0, "c": 1.0}, r"`x_scale` must .*'c'"),
        ({"w": 1.0, "b": np.ones(4)}, r"`x_scale\['b'\]` must be .* shape \(3,\)"),
        ({"w": 1.0, "b": None}, r"`x_scale\['b'\]`"),
        ({"w": 1.0, "b": {"c": 1.0}}, r"`x_scale\['b'\]`"),
        (np.ones(9), "`x_scale` must be a number or have the structure"),
        ([1.0, 2.0], r"`x_scale` must .*\[0, 1\]"),
    ],
)
def test_another_structure_is_named(given: Any, words: str):
    with pytest.raises(ValueError, match=words):
        Tree.of(STRUCTURES[0])[1].like("x_scale", given)


LIMITS = [
    (0, 2),
    [0, 2],
    gs.Bounds(0, 2),  # pyright: ignore
    ({"w": 0, "b": 0}, 2),
    gs.Bounds({"w": 0, "b": np.zeros(3)}, {"w": np.full((2, 3), 2), "b": 2}),  # pyright: ignore
    {"w": (0, 2), "b": (np.zeros(3), 2)},
    {"b": [0, 2], "w": (np.zeros((2, 3)), np.full((2, 3), 2))},
]


@pytest.mark.parametrize("given", LIMITS, ids=range(len(LIMITS)))
def test_limits_may_be_written_in_several_ways(given: Any):
    lower, upper = Tree.of(STRUCTURES[0])[1].bounds(given)
    assert lower.tolist() == [0] * 9
    assert upper.tolist() == [2] * 9


def test_none_is_no_limit_on_its_side():
    tree = Tree.of(STRUCTURES[0])[1]
    lower, upper = tree.bounds({"w": (None, 1), "b": (2, None)})
    assert lower.tolist() == [-np.inf] * 6 + [2] * 3
    assert upper.tolist() == [1] * 6 + [np.inf] * 3
    lower, upper = tree.bounds(({"w": None, "b": 2}, None))
    assert lower.tolist() == [-np.inf] * 6 + [2] * 3
    assert upper.tolist() == [np.inf] * 9


def test_pairs_below_a_list():
    tree = Tree.of({"layers": [np.ones(2), np.ones((1, 2))]})[1]
    assert tree.bounds({"layers": (0, 1)}).upper.tolist() == [1] * 4
    assert tree.bounds({"layers": [(0, 1), (0, 2)]}).upper.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"w": (0, 1)}, "structure of x0"),
        ({"w": (0, 1), "b": 3}, r"`bounds\['b'\]` must be a pair"),
        ({"w": (0, 1), "b": (0, np.ones(2))}, r"`bounds\['b'\]` must be .*shape \(3,\)"),
        ((np.zeros(9), np.ones(9)), "structure of x0"),
        (3, r"must be \(lower, upper\)"),
        ([0, 1, 2], r"must be \(lower, upper\)"),
        (({"w": 0}, 1), "structure of x0"),
    ],
)
def test_other_limits_are_refused(given: Any, words: str):
    with pytest.raises(ValueError, match=words):
        Tree.of(STRUCTURES[0])[1].bounds(given)


def test_words_are_no_limits():
    with pytest.raises(TypeError, match="`bounds` must be numbers"):
        Tree.of(STRUCTURES[0])[1].bounds(("low", "high"))


def test_shapes_are_what_low_rank_directions_take():
    tree = Tree.of({"w": np.ones((4, 3)), "b": np.ones(3), "s": 1.0, "t": np.ones((2, 2, 2))})[1]
    assert tree.shapes == ((4, 3), (3,), (1,), (8,))
    family = gs.LowRank(shape=tree.shapes)
    assert family.shaped((tree.size,)).shapes == tree.shapes


# --- what is no structure of parameters


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"w": "text"}, TypeError, r"x0\['w'\]"),
        ({"w": np.ones(2, complex)}, TypeError, r"x0\['w'\]"),
        ({"w": np.ones(2, np.float16)}, TypeError, r"x0\['w'\]"),
        (
            {"w": np.ones(2), "n": 3},
            TypeError,
            r"x0\['n'\] is 3, which holds integers or Booleans.*args",
        ),
        ({"a": [{"n": np.arange(3)}]}, TypeError, r"x0\['a'\]\[0\]\['n'\].*integers or Booleans"),
        ({"w": True}, TypeError, r"x0\['w'\].*integers or Booleans"),
        ({"w": np.array([1.0, np.nan])}, ValueError, "finite"),
        ({}, ValueError, "at least one"),
        ({"w": np.ones(0)}, ValueError, "at least one"),
        ({"w": None}, TypeError, r"x0\['w'\]"),
        ({"w": object()}, TypeError, r"x0\['w'\]"),
        ({1: np.ones(2)}, TypeError, "strings as keys.*the key 1"),
        ({"a": {(1, 2): np.ones(2)}}, TypeError, r"x0\['a'\] has the key \(1, 2\)"),
    ],
)
def test_what_is_no_parameter_is_named(value: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        Tree.of(value)


def test_a_structure_that_contains_itself_has_an_end():
    value: dict[str, Any] = {}
    value["again"] = value
    with pytest.raises(ValueError, match="levels"):
        Tree.of(value)


# --- as JSON


def test_a_class_that_cannot_be_found_again_is_asked_for():
    @dataclass
    class Hidden:
        w: Any

    written = Tree.of(Hidden(np.ones(2)))[1].to_json()
    with pytest.raises(ValueError, match=r"Hidden.*x0="):
        Tree.from_json(written, trust=True)
    assert Tree.of_names(written).build(np.ones(2))["w"].tolist() == [1, 1]


LEAF = {"shape": [1], "dtype": "float64"}


@pytest.mark.parametrize(
    "found",
    [
        None,
        3,
        {"kind": "dict"},
        {"kind": 3, "children": []},
        {"kind": ["list"], "children": [], "names": []},
        {"kind": "dict", "children": [LEAF]},
        {"kind": "list", "children": [3]},
        {"kind": "list", "children": [LEAF], "names": ["a"]},
        {"shape": [-1], "dtype": "float"},
        {"shape": [True], "dtype": "float"},
        {"shape": 3, "dtype": "float"},
        {"shape": [2], "dtype": "object"},
        {"shape": [2], "dtype": ["float"]},
        {"kind": "json:loads", "children": [], "names": []},
        {"kind": "builtins:dict", "children": [], "names": []},
        {"kind": "dict", "children": [LEAF], "names": []},
        {"kind": "dict", "children": [LEAF], "names": [1]},
    ],
)
def test_damaged_structures_are_refused(found: Any):
    with pytest.raises(ValueError, match="damaged"):
        Tree.from_json(found, trust=True)


def test_endless_structures_are_refused():
    found: Any = LEAF
    for _ in range(60):
        found = {"kind": "list", "children": [found]}
    with pytest.raises(ValueError, match="damaged"):
        Tree.from_json(found, trust=True)


def test_nothing_is_imported_because_a_file_says_so():
    with pytest.raises(ValueError, match="trust"):
        Tree.from_json({"kind": "this:Thing", "children": [], "names": []}, trust=False)
