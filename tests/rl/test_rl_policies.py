"""Policies: the layout of the flat vector, the start, the forward pass against a literal one."""

import math

import numpy as np
import pytest

from gensmooth.rl.policies import MLP, Linear, Policy, architecture

SHAPES = [Policy((4, 2)), Policy((1, 1)), Policy((5, 3, 2), True), Policy((5, 3, 4, 2), False)]


def literal(policy: Policy, x, observation):
    """The forward pass, number by number, in Python floats."""
    position, hidden = 0, [float(o) for o in observation]
    for number, (n, m) in enumerate(zip(policy.sizes, policy.sizes[1:], strict=False)):
        out = []
        for _ in range(m):
            out.append(math.fsum(float(x[position + j]) * hidden[j] for j in range(n)))
            position += n
        if policy.biases:
            out = [value + float(x[position + i]) for i, value in enumerate(out)]
            position += m
        last = number == len(policy.sizes) - 2
        hidden = out if last else [math.tanh(value) for value in out]
    assert position == policy.num_parameters
    return np.array(hidden)


@pytest.mark.parametrize("policy", SHAPES, ids=str)
def test_act_is_the_forward_pass_written_out(policy):
    rng = np.random.default_rng(3)
    for _ in range(5):
        x = rng.standard_normal(policy.num_parameters)
        observation = rng.standard_normal(policy.sizes[0])
        expected = literal(policy, x, observation)
        np.testing.assert_allclose(policy.act(x, observation), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("policy", SHAPES, ids=str)
def test_layers_tile_the_vector(policy):
    position = 0
    for layer, n, m in zip(policy.layers(), policy.sizes, policy.sizes[1:], strict=False):
        assert (layer.start, layer.rows, layer.columns) == (position, m, n)
        position = layer.stop
    assert position == policy.num_parameters


def test_the_papers_sizes():
    assert Linear().policy(111, 8).num_parameters == 888
    assert Linear().policy(17, 6).num_parameters == 102  # HalfCheetahRandVel
    assert MLP().policy(111, 8) == Policy((111, 32, 8), True)


def test_linear_starts_at_zero_and_plays_zero():
    policy = Linear().policy(7, 2)
    x = policy.initial(5)
    assert not x.any()
    assert not policy.act(x, np.ones(7)).any()


def test_mlp_starts_at_glorot_weights_and_does_nothing():
    policy = MLP((400, 200)).policy(300, 100)
    x = policy.initial(5)
    *hidden, last = policy.layers()
    for layer in hidden:
        weights = x[layer.start : layer.bias_start]
        limit = math.sqrt(6 / (layer.rows + layer.columns))
        assert np.abs(weights).max() <= limit
        # Var of U(±limit) is limit²/3; of its mean square over n weights, 4/45 limit⁴ / n.
        error = limit**2 * math.sqrt(4 / 45 / len(weights))
        assert abs((weights**2).mean() - limit**2 / 3) < 5 * error
        assert not x[layer.bias_start : layer.stop].any()
    assert not x[last.start :].any()
    assert not policy.act(x, np.ones(300)).any()
    assert np.array_equal(x, policy.initial(5))
    assert not np.array_equal(x, policy.initial(6))


def test_names_and_objects_of_architectures():
    assert architecture("linear") == Linear()
    assert architecture("mlp", (8, 4)) == MLP((8, 4)) == architecture(MLP((8, 4)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Policy((3,)), "at least two"),
        (lambda: Policy((3, 0)), "at least 1"),
        (lambda: Policy((3, True)), "at least 1"),
        (lambda: MLP(()), "sizes of the hidden layers"),
        (lambda: MLP((0,)), "sizes of the hidden layers"),
        (lambda: MLP("32"), "sizes of the hidden layers"),
        (lambda: architecture("cnn"), "'linear', 'mlp'"),
        (lambda: Policy((3, 2)).check(np.zeros(5)), "has 6 parameters.*shape \\(5,\\)"),
    ],
)
def test_bad_shapes_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
