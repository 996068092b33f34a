"""Parameters in a structure: one flat array and back."""

import json
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from gensmooth.trees import Tree, is_tree


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
    {"layers": [Layer(np.ones((2, 2)), np.ones(2)), Layer(np.ones(1), 0.5)], 7: np.ones(())},
    Pair(np.ones(2), 4.0),
    {"plain": [1.0, 2.0, 3.0]},
]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for child in value.values() for leaf in leaves(child)]
    if isinstance(value, Layer):
        return leaves([value.weight, value.bias])
    if isinstance(value, list | tuple) and not all(isinstance(each, float) for each in value):
        return [leaf for child in value for leaf in leaves(child)]
    return [value]


@pytest.mark.parametrize("value", STRUCTURES, ids=range(len(STRUCTURES)))
def test_a_structure_comes_back_with_its_types_shapes_and_numbers(value: Any):
    assert is_tree(value)
    tree, flat = Tree.of(value)
    assert flat.shape == (tree.size,)
    built = tree.build(np.arange(tree.size, dtype=flat.dtype))
    assert type(built) is type(value)
    found, expected = leaves(built), leaves(value)
    assert [np.shape(each) for each in found] == [np.shape(each) for each in expected]
    for one, other in zip(found, expected, strict=True):
        if hasattr(other, "dtype"):
            assert one.dtype == other.dtype
    numbers = np.concatenate([np.reshape(each, -1) for each in found])
    assert np.array_equal(numbers, np.arange(tree.size))
    again = Tree.from_json(json.loads(json.dumps(tree.to_json())), trust=False)
    assert repr(again.build(flat)) == repr(tree.build(flat))


def test_single_precision_stays_only_where_all_are():
    assert Tree.of(STRUCTURES[1])[1].dtype == np.float32
    assert Tree.of(STRUCTURES[2])[1].dtype == np.float64


def test_stacked_points_become_stacked_leaves():
    tree, _ = Tree.of(STRUCTURES[0])
    built = tree.build(np.arange(18.0).reshape(2, 9))
    assert built["w"].shape == (2, 2, 3)
    assert built["b"][1].tolist() == [15, 16, 17]


def test_what_is_one_array_is_no_tree():
    for value in (1.0, [1, 2], (1.0, 2.0), [[1, 2], [3, 4]], np.ones(3), [np.ones(2), np.ones(2)]):
        assert not is_tree(value)


def test_numbers_of_a_like_structure_are_laid_out_alike():
    tree, _ = Tree.of(STRUCTURES[0])
    laid = tree.like("x_scale", {"b": 3.0, "w": np.arange(6.0).reshape(2, 3)})
    assert laid.tolist() == [0, 1, 2, 3, 4, 5, 3, 3, 3]
    assert tree.like("x_scale", 0.5) == 0.5
    with pytest.raises(ValueError, match=r"x_scale.*structure of x0"):
        tree.like("x_scale", {"w": 1.0})
    with pytest.raises(ValueError, match=r"x_scale\['b'\].*shape \(3,\)"):
        tree.like("x_scale", {"w": 1.0, "b": np.ones(4)})


@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"w": "text"}, TypeError, r"x0\['w'\]"),
        ({"w": np.ones(2, complex)}, TypeError, r"x0\['w'\]"),
        ({"w": np.array([1.0, np.nan])}, ValueError, "finite"),
        ({}, ValueError, "at least one"),
        ({"w": np.ones(0)}, ValueError, "at least one"),
        ({"w": None}, TypeError, r"x0\['w'\]"),
    ],
)
def test_what_is_no_number_is_named(value: Any, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        Tree.of(value)


def test_a_structure_that_contains_itself_has_an_end():
    value: dict[str, Any] = {}
    value["again"] = value
    with pytest.raises(ValueError, match="levels"):
        Tree.of(value)


def test_a_class_that_cannot_be_found_again_is_refused_for_a_folder():
    @dataclass
    class Hidden:
        w: Any

    with pytest.raises(TypeError, match="Hidden"):
        Tree.of(Hidden(np.ones(2)))[0].to_json()
    with pytest.raises(TypeError, match="keys"):
        Tree.of({(1, 2): np.ones(2)})[0].to_json()


@pytest.mark.parametrize(
    "found",
    [
        None,
        3,
        {"kind": "dict"},
        {"kind": "list", "children": [3]},
        {"shape": [-1], "dtype": "float"},
        {"shape": [2], "dtype": "object"},
        {"kind": "json:loads", "children": [], "names": []},
        {"kind": "dict", "children": [{"shape": [1], "dtype": "float"}], "names": []},
    ],
)
def test_damaged_structures_are_refused(found: Any):
    with pytest.raises(ValueError, match="damaged"):
        Tree.from_json(found, trust=True)


def test_nothing_is_imported_because_a_file_says_so():
    with pytest.raises(ValueError, match="trust"):
        Tree.from_json({"kind": "this:Thing", "children": [], "names": []}, trust=False)
