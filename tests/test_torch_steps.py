"""Steps of gs.torch.ZerothOrder: the estimator's formula, its invariances, torch's interface."""

import copy

import numpy as np
import pytest

import gensmooth as gs
from torch_cases import bits, decoder, loss_of, nn, perceptron, square_loss, torch

DIRECTIONS = [
    *("bes", "gs", "low-rank", "sparse"),
    gs.LowRank(rank=3),
    gs.torch.SparseTiles(density=0.5, entries="normal"),
    gs.shrunk(gs.Bernoulli(), scale="estimate"),
    gs.Gaussian(),
]


def optimizer(model, **how):
    return gs.torch.ZerothOrder(model, **{"seed": 0, "num_directions": 4, "lr": 0.05} | how)


@pytest.mark.parametrize("estimator", ["forward", "antithetic", "one-point", "ranked"])
@pytest.mark.parametrize("directions", DIRECTIONS, ids=str)
def test_a_step_is_the_formula(estimator, directions):
    model = perceptron()
    opt = optimizer(model, estimator=estimator, directions=directions, spacing=0.01)
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
    found = optimizer(model, directions="bes-shrinkage").direction("0.weight", 0)
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


@pytest.mark.parametrize("directions", ["bes", "gs", "low-rank", "sparse"])
def test_the_order_and_company_of_parameters_do_not_matter(directions):
    one, other = perceptron(), perceptron()
    weights = [0.5, -1.0, 2.0, 0.1]
    optimizer(one, directions=directions).apply(weights)
    pairs = list(other.named_parameters())[::-1]
    groups = [{"params": pairs[:2]}, {"params": pairs[2:], "lr": 0.05}]
    optimizer(groups, directions=directions).apply(weights)
    assert bits(one) == bits(other)
    alone = perceptron()
    optimizer([pairs[0] for pairs in [list(alone[2].named_parameters(prefix="2"))]],
              directions=directions).apply(weights)  # fmt: skip
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
