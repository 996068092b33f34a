"""Steps of gs.torch.ZerothOrder: the estimator's formula, its invariances, torch's interface."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import gensmooth as gs
from torch_cases import bits, decoder, loss_of, nn, perceptron, square_loss, torch

DIRECTIONS = [
    *({"method": name} for name in ("bes", "gs", "low-rank", "sparse")),
    {"directions": gs.LowRank(rank=3)},
    {"directions": gs.torch.SparseTiles(density=0.5, entries="normal")},
    {"directions": gs.shrunk(gs.Bernoulli(), scale="estimate")},
    {"directions": gs.Gaussian()},
]


def optimizer(model, **how):
    return gs.torch.ZerothOrder(model, **{"seed": 0, "num_directions": 4, "lr": 0.05} | how)


@pytest.mark.parametrize("estimator", ["forward", "antithetic", "one-point", "ranked"])
@pytest.mark.parametrize("directions", DIRECTIONS, ids=str)
def test_a_step_is_the_formula(estimator, directions):
    model = perceptron()
    opt = optimizer(model, estimator=estimator, spacing=0.01, **directions)
    loss, values = square_loss(model), []
    with torch.no_grad():
        for direction, side in opt.points():
            with opt.perturbed(direction=direction, side=side):
                values.append(float(loss()))
    calls = {"forward": 5, "antithetic": 8, "one-point": 4, "ranked": 8}
    assert len(values) == calls[estimator]
    delta, value = gs.estimators.ESTIMATORS[estimator].differences(np.array(values), 4, "shared")
    factor = 4 / (4 + 50 + 1 - 2) if "Shrunk" in repr(directions) else 1.0
    expected = {
        name: w - 0.05 * sum(
            factor * float(delta[i]) / (0.01 * 4) * opt.direction(name, i) for i in range(4)
        )
        for name, w in model.named_parameters()
    }  # fmt: skip
    assert opt.step(loss) == pytest.approx(value, rel=1e-6)
    for name, w in model.named_parameters():
        torch.testing.assert_close(w, expected[name], rtol=1e-5, atol=1e-6)


def test_shrinkage_scales_directions_by_the_theory_of_all_entries():
    model = perceptron()
    d = sum(w.numel() for w in model.parameters())
    assert d == 50
    found = optimizer(model, method="bes-shrinkage").direction("0.weight", 0)
    assert float(found.abs().max()) == pytest.approx((4 / (4 + d + 1 - 2)) ** 0.5)
    plain = optimizer(model).direction("0.weight", 0)
    assert torch.equal(found.sign(), plain)


def test_the_estimate_is_the_gradient_on_average():
    model = nn.Linear(6, 1)
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    loss = model(x).square().mean()
    loss.backward()
    truth = torch.cat([w.grad.flatten() for w in model.parameters()]).numpy().astype(float)
    opt = gs.torch.ZerothOrder(
        model, lr=1.0, spacing=1e-3, num_directions=600, estimator="antithetic", seed=1
    )
    model.zero_grad(set_to_none=True)
    before = np.concatenate([w.detach().numpy().flatten() for w in model.parameters()])
    opt.step(lambda: model(x).double().square().mean())
    after = np.concatenate([w.detach().numpy().flatten() for w in model.parameters()])
    error = (before - after) - truth
    # BeS: E‖error‖² = ‖∇F‖² (d − 1)/L; its standard deviation is a fraction of that
    expected = (truth**2).sum() * 6 / 600
    assert 0.2 < (error**2).sum() / expected < 3
    assert (truth**2).sum() / expected > 50  # a wrong sign or a missing 1/L is far outside


@pytest.mark.parametrize("method", ["bes", "gs", "low-rank", "sparse"])
def test_the_order_and_company_of_parameters_do_not_matter(method):
    one, other = perceptron(), perceptron()
    weights = [0.5, -1.0, 2.0, 0.1]
    optimizer(one, method=method).apply(weights)
    pairs = list(other.named_parameters())[::-1]
    groups = [{"params": pairs[:2]}, {"params": pairs[2:], "lr": 0.05}]
    optimizer(groups, method=method).apply(weights)
    assert bits(one) == bits(other)
    alone = perceptron()
    optimizer([pairs[0] for pairs in [list(alone[2].named_parameters(prefix="2"))]],
              method=method).apply(weights)  # fmt: skip
    assert torch.equal(alone[2].weight, one[2].weight)


def test_groups_have_their_own_rates_and_decay():
    model = perceptron()
    before = copy.deepcopy(model.state_dict())
    pairs = list(model.named_parameters())
    groups = [
        {"params": pairs[:2], "lr": 0.0},
        {"params": pairs[2:], "lr": 0.1, "weight_decay": 0.5},
    ]
    opt = optimizer(groups)
    opt.apply([1.0, 0, 0, 0])
    after = model.state_dict()
    assert torch.equal(before["0.weight"], after["0.weight"])
    expected = np.float32(0.95) * before["2.weight"] - 0.1 * opt.direction("2.weight", 0, step=0)
    torch.testing.assert_close(after["2.weight"], expected)


def test_momentum_is_a_running_sum_of_steps():
    model = perceptron()
    start = model[0].weight.detach().clone()
    opt = optimizer(model, momentum=0.5, lr=0.1)
    opt.apply([1.0, 0, 0, 0])
    opt.apply([0, 2.0, 0, 0])
    first, second = opt.direction("0.weight", 0, step=0), opt.direction("0.weight", 1, step=1)
    expected = start - 0.1 * first - 0.1 * (0.5 * first + 2 * second)
    torch.testing.assert_close(model[0].weight.detach(), expected)


def test_the_spread_of_losses_normalises_a_step():
    a, b = perceptron(), perceptron()
    optimizer(a, normalize="spread").step(square_loss(a))
    loss = square_loss(b)
    optimizer(b, normalize="spread").step(lambda: 1000 * loss())
    for v, w in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(v, w, rtol=1e-3, atol=1e-4)
    c = perceptron()
    before, opt = bits(c), optimizer(c, normalize="spread")
    opt.step(lambda: (c(torch.ones(5)) * 0).sum())  # no spread: nothing to be learnt
    assert bits(c) == before


def test_maximizing_is_minimizing_the_other_sign():
    a, b = perceptron(), perceptron()
    loss_a, loss_b = square_loss(a), square_loss(b)
    up = optimizer(a, maximize=True).step(loss_a)
    down = optimizer(b).step(lambda: -loss_b())
    assert up == -down
    assert bits(a) == bits(b)


def test_training_works_in_half_precision_on_a_loss_without_gradient():
    model = decoder(torch.bfloat16)
    loss = loss_of(model)
    opt = gs.torch.ZerothOrder(model, lr=0.02, spacing=0.01, num_directions=32, seed=0)
    losses = [opt.step(lambda: float(loss())) for _ in range(40)]
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:5])


def test_schedulers_and_hooks_of_torch_work():
    model = perceptron()
    opt = optimizer(model)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for _ in range(3):
        opt.step(square_loss(model))
        schedule.step()
    assert opt.param_groups[0]["lr"] == pytest.approx(0.05 / 8)


@pytest.mark.parametrize("samples", ["shared", "paired", "independent", None])
def test_randomness_of_the_model_is_addressed_too(samples):
    def run():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(5, 7), nn.Dropout(0.5), nn.Linear(7, 1))
        seen = []

        def closure():
            loss = square_loss(model)()
            seen.append(float(loss))
            return loss

        opt = optimizer(model, samples=samples, spacing=1e-7)
        torch.manual_seed(4)
        opt.step(closure)
        return seen, torch.rand(1)

    (first, after), (again, _) = run(), run()
    assert first == again
    torch.manual_seed(4)
    untouched = torch.equal(after, torch.rand(1))
    assert untouched == (samples is not None)
    values = {round(each, 4) for each in first}
    assert (len(values) == 1) == (samples == "shared")
    if samples == "paired":
        assert len(first) == 8
        assert [round(each, 4) for each in first[::2]] == [round(each, 4) for each in first[1::2]]


def test_a_state_dict_continues_a_run_to_the_bit():
    torch.manual_seed(0)
    for momentum in (0.0, 0.9):
        whole = perceptron(torch.bfloat16)
        opt = optimizer(whole, momentum=momentum)
        for _ in range(4):
            opt.step(square_loss(whole))
        part = perceptron(torch.bfloat16)
        opt = optimizer(part, momentum=momentum)
        for _ in range(2):
            opt.step(square_loss(part))
        saved = copy.deepcopy((part.state_dict(), opt.state_dict()))
        rest = perceptron(torch.bfloat16, seed=9)
        rest.load_state_dict(saved[0])
        opt = optimizer(rest, momentum=momentum)
        opt.load_state_dict(saved[1])
        assert opt.steps_done == 2
        for _ in range(2):
            opt.step(square_loss(rest))
        assert bits(rest) == bits(whole)


def test_own_loops_are_the_same_as_steps():
    a, b = perceptron(), perceptron()
    stepping, own = optimizer(a), optimizer(b)
    for t in range(3):
        stepping.step(square_loss(a))
        values = []
        with torch.no_grad():
            for direction, side in own.points():
                with own.perturbed(direction=direction, side=side):
                    values.append(float(square_loss(b)()))
        own.apply(own.weights(values), step=t)
    assert bits(a) == bits(b)


# --- losses that fail, and runs that do ----------------------------------------------------------


def failing(model, bad):
    """A loss that is not finite in some evaluations of each step."""
    loss, count = square_loss(model), [0]

    def closure():
        count[0] += 1
        return loss() * (math.nan if (count[0] - 1) % 33 in bad else 1.0)

    return closure


@pytest.mark.parametrize("estimator", ["forward", "one-point"])
@pytest.mark.parametrize("normalize", [None, "spread"])
def test_one_nan_among_32_directions_drops_that_direction(estimator, normalize):
    """The step is that of the other 31, weighted by 31."""
    how = {"num_directions": 32, "spacing": 0.01, "normalize": normalize, "estimator": estimator}
    model = perceptron()
    opt = optimizer(model, on_failure="drop", **how)
    values = []
    with torch.no_grad():
        for direction, side in opt.points():
            with opt.perturbed(direction=direction, side=side):
                values.append(float(square_loss(model)()))
    gone = 6
    values[gone] = math.nan
    found = np.array(opt.weights(values))
    forward = estimator == "forward"
    away = np.array(values[forward:])
    fine = np.isfinite(away)
    kept = away[fine]
    expected = (kept - values[0]) / 31 if forward else (kept - kept.mean()) / 30
    expected /= 0.01 if normalize is None else kept.std(ddof=1)
    assert found[gone - forward] == 0.0
    np.testing.assert_allclose(found[fine], expected, rtol=1e-10)
    with pytest.raises(ValueError, match="on_failure='drop'"):
        optimizer(perceptron(), **how).weights(values)


def test_dropped_directions_are_counted_and_too_many_are_an_error(tmp_path):
    model = perceptron()
    with gs.torch.Log(tmp_path / "run.log") as log:
        opt = optimizer(model, num_directions=32, on_failure="drop", log=log)
        assert math.isfinite(opt.step(failing(model, {7})))
        assert opt.step(failing(model, {0})) > 0  # the centre: the others stand in for it
        assert opt.failures == 1
        before = bits(model)
        with pytest.raises(ValueError, match="Only 15 of 32 directions of step 2"):
            opt.step(failing(model, set(range(1, 18))))
        assert bits(model) == before
    rebuilt = perceptron()
    assert gs.torch.replay(rebuilt, tmp_path / "run.log") == 2
    assert bits(rebuilt) == before
    strict = optimizer(rebuilt, num_directions=32)
    with pytest.raises(
        ValueError, match=r"is nan at direction 6, side .1. The step was not taken. A smaller"
    ):
        strict.step(failing(rebuilt, {7}))
    with pytest.raises(ValueError, match="No loss is finite there"):
        strict.step(failing(rebuilt, {0}))
    for bad, match in (({"on_failure": "retry"}, "on_failure"), ({"min_fraction": 0}, "min_frac")):
        with pytest.raises(ValueError, match=match):
            optimizer(perceptron(), **bad)


def runs(losses, **how):
    """The warnings of steps that found these losses."""
    opt = optimizer(perceptron(), num_directions=1, **how)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for loss in losses:
            opt.apply([0.0], loss=loss)
    return [each for each in caught if each.category is gs.torch.DivergenceWarning]


def test_divergence_is_reported_once():
    rng = np.random.default_rng(0)
    noise = rng.lognormal(0, 0.5, 2000)
    assert not runs([1.0, *noise])  # batches differ, and nothing is learnt
    assert not runs([1.0, *(noise * np.linspace(1, 0.1, 2000))])
    assert not runs([-5.0, *(-5 - noise)])
    assert len(runs([1.0, *[3.5] * 19])) == 0
    assert len(runs([1.0, *[3.5] * 100])) == 1
    assert len(runs([0.77, *rng.normal(1.1, 0.08, 100)])) == 1  # a classifier that only guesses
    assert len(runs(2.3 * 1.2 ** np.arange(100))) == 1
    assert len(runs(-(2.3 * 1.2 ** np.arange(100)), maximize=True)) == 1
    assert not runs(2.3 * 1.2 ** np.arange(100), maximize=True)
    assert not runs([math.nan] * 50)


def trained(model, rate, loss, steps=60):
    opt = gs.torch.ZerothOrder(model, lr=rate, spacing=0.01, num_directions=8, seed=0)
    return [opt.step(loss) for _ in range(steps)]


def test_too_large_a_rate_is_not_silent():
    """Four times the right rate: the loss overflows; or, where it is bounded, stays high."""
    model = decoder()
    with pytest.raises(ValueError, match=r"has probably diverged.*lower `lr` \(now 0.05\)"):
        trained(model, 0.05, loss_of(model))
    model = decoder()
    loss = loss_of(model)
    losses = trained(model, 0.012, loss)
    assert losses[-1] < 0.2 * losses[0]
    with pytest.warns(gs.torch.DivergenceWarning, match=r"lower `lr` \(now 20\)") as caught:
        trained(model, 20.0, lambda: torch.tanh(loss() / 10))
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("how", [{}, {"momentum": 0.9}, {"mode": "copy"}], ids=str)
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("way", [copy.deepcopy, lambda given: pickle.loads(pickle.dumps(given))])
def test_copies_and_pickles_go_on_to_the_bit_and_apart(way, how, named):
    model = perceptron()
    given = model.named_parameters() if named else model
    opt = optimizer(given, seed=None, directions=gs.LowRank(rank=2), **how)
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for _ in range(2):
        opt.step(square_loss(model))
        schedule.step()
    twin, other = way((model, opt))
    assert other.seed == opt.seed
    assert other.param_groups[0]["lr"] == opt.param_groups[0]["lr"] == 0.05 / 4
    before = bits(twin)
    losses = [opt.step(square_loss(model)) for _ in range(3)]
    assert bits(twin) == before  # it has parameters of its own
    assert [other.step(square_loss(twin)) for _ in range(3)] == losses
    assert bits(twin) == bits(model)
    assert other.steps_done == opt.steps_done == 5
    alone = way(opt)  # with a copy of the parameters that only it knows
    alone.apply([1.0] * 4)
    assert bits(model) == bits(twin)


def test_an_optimiser_with_a_log_or_changed_parameters_is_not_copied(tmp_path):
    model = perceptron()
    with gs.torch.Log(tmp_path / "run.log") as log:
        opt = optimizer(model, log=log)
        with pytest.raises(gs.torch.LogError, match=r"state_dict\(\)"):
            copy.deepcopy(opt)
    opt = optimizer(model)
    model[0].weight.data.mul_(2.0)
    model.load_state_dict(perceptron(seed=1).state_dict())
    with pytest.raises(RuntimeError, match="Other code has changed"):
        pickle.dumps(opt)
