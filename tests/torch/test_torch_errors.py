"""Bad input of gs.torch: a plain error before anything moves."""

import pytest

import gensmooth as gs
from torch_cases import bits, nn, perceptron, square_loss, torch


def optimizer(model, **how):
    return gs.torch.ZerothOrder(model, **{"seed": 0, "num_directions": 2, "lr": 0.1} | how)


def refuse(model, call, error, match):
    before = bits(model)
    with pytest.raises(error, match=match):
        call()
    assert bits(model) == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        (lambda m: m.parameters(), TypeError, "must have names"),
        (lambda m: [w for w in m.parameters()], TypeError, "named_parameters"),  # noqa: C416
        (lambda m: [{"params": m.parameters()}], TypeError, "must have names"),
        (lambda m: next(m.parameters()), TypeError, "must be a model"),
        (lambda _: "model", TypeError, "must be a model"),
        (lambda _: [{"lr": 1}], ValueError, "must have 'params'"),
        (lambda m: [(1, next(m.parameters()))], TypeError, "must have names"),
        (lambda _: [("w", 3.0)], TypeError, "must be a tensor"),
        (lambda m: [*m.named_parameters(), *m.named_parameters()], ValueError, "occurs twice"),
        (lambda m: [("a", m[0].weight), ("b", m[0].weight)], ValueError, "it is also 'a'"),
        (lambda m: [("a", m[0].weight), ("a", m[0].bias)], ValueError, "have the name 'a'"),
        (
            lambda m: [("a", m[0].weight), ("b", nn.Parameter(m[0].weight.data[1:]))],
            ValueError,
            "share memory",
        ),
        (lambda _: [], ValueError, "no parameters to train"),
        (lambda m: m.requires_grad_(False), ValueError, "requires_grad to True"),
        (lambda _: [("w", torch.arange(3))], TypeError, "torch.int64, which cannot be perturbed"),
        (lambda _: [("w", torch.zeros(3, dtype=torch.complex64))], TypeError, "complex64"),
        (lambda _: [("w", nn.Parameter(torch.zeros(3, device="meta")))], TypeError, "meta|device"),
        (lambda _: [("w", nn.Parameter(torch.zeros(3)))], ValueError, "No module owns"),
    ],
)
def test_parameters(params, error, match):
    model = perceptron()
    refuse(model, lambda: optimizer(params(model)), error, match)


def test_frozen_integers_of_a_model_are_left_out():
    model = perceptron()
    model.codes = nn.Parameter(torch.arange(3), requires_grad=False)
    optimizer(model)


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"lr": -1.0}, ValueError, "`lr`"),
        ({"spacing": 0.0}, ValueError, "`spacing` must be positive"),
        ({"num_directions": 0}, ValueError, "`num_directions`"),
        ({"num_directions": 1, "estimator": "one-point"}, ValueError, "at least 2 directions"),
        ({"method": "orthogonal-es"}, ValueError, "one of 'bes'"),
        ({"directions": "gs"}, TypeError, "for a name, pass method='gs'"),
        ({"directions": gs.Gaussian(), "method": "gs"}, ValueError, "not both"),
        ({"directions": gs.Orthogonal()}, ValueError, "independent entries"),
        ({"directions": gs.Sphere()}, ValueError, "independent entries"),
        ({"directions": gs.Bernoulli(p=0.3)}, ValueError, "independent entries"),
        ({"directions": 3}, TypeError, "`directions` must be an object"),
        ({"learning_rate": 0.1}, TypeError, r"ZerothOrder\(\) has no .* `learning_rate`: use `lr`"),
        ({"estimator": "backward"}, ValueError, "no estimator .backward."),
        ({"normalize": "loss"}, ValueError, "`normalize`"),
        ({"momentum": 1.0}, ValueError, "below 1"),
        ({"mode": "fast"}, ValueError, "`mode`"),
        ({"samples": "all"}, ValueError, "`samples`"),
        ({"seed": -1}, ValueError, "`seed`"),
        ({"log": "run.log"}, TypeError, "gs.torch.Log"),
        ({"ranks": "directions"}, ValueError, "init_process_group"),
        ({"ranks": "nodes"}, ValueError, "`ranks`"),
        ({"weight_decay": -1}, ValueError, "`weight_decay`"),
    ],
)
def test_settings(how, error, match):
    model = perceptron()
    refuse(model, lambda: optimizer(model, **how), error, match)


def test_options_of_low_rank_and_sparse_directions():
    for call, match in (
        (lambda: gs.LowRank(rank=0), "`rank`"),
        (lambda: gs.LowRank(entries="uniform"), "`entries`"),
        (lambda: gs.torch.SparseTiles(density=0.0), "`density`"),
        (lambda: gs.torch.SparseTiles(entries="uniform"), "`entries`"),
    ):
        with pytest.raises(ValueError, match=match):
            call()


def with_gradients(model):
    with torch.enable_grad():
        loss = square_loss(model)()
        loss.backward()
    return loss.detach()


@pytest.mark.parametrize(
    ("closure", "error", "match"),
    [
        (lambda m: square_loss(m)().backward(), ValueError, "computes gradients"),
        (with_gradients, ValueError, "computes gradients"),
        (lambda m: torch.enable_grad()(square_loss(m))(), ValueError, "requires a gradient"),
        (lambda m: square_loss(m)() * float("nan"), ValueError, "loss of step 0 is nan"),
        (lambda m: square_loss(m)() * float("inf"), ValueError, "loss of step 0 is inf"),
        (lambda m: m(torch.ones(3, 5)), ValueError, r"shape \(3, 1\)"),
        (lambda m: (square_loss(m)(), None)[1], ValueError, "returned None"),
        (lambda m: (square_loss(m)(), "low")[1], ValueError, "one number"),
        (lambda m: square_loss(m)() * 1j, ValueError, "real number"),
        (lambda _: 3.0, ValueError, "none of the model's parameters"),
        (lambda _: square_loss(perceptron())(), ValueError, "none of the model's parameters"),
    ],
)
def test_closures(closure, error, match):
    model = perceptron()
    opt = optimizer(model)
    refuse(model, lambda: opt.step(lambda: closure(model)), error, match)
    assert all(w.grad is None for w in model.parameters())
    opt.step(square_loss(model))


def test_a_step_needs_a_closure():
    model = perceptron()
    refuse(model, optimizer(model).step, TypeError, "needs a closure")
    refuse(model, lambda: optimizer(model).step(3), TypeError, "`closure` must be a function")


def test_a_model_that_something_else_changed():
    for change in (
        lambda m: m[0].weight.mul_(2.0),
        lambda m: m.load_state_dict(perceptron(seed=1).state_dict()),
        lambda m: m.to(torch.float64),
        lambda m: setattr(m[0].weight, "data", torch.zeros(7, 5)),
    ):
        model = perceptron()
        opt = optimizer(model)
        opt.step(square_loss(model))
        with torch.no_grad():
            change(model)
        refuse(
            model,
            lambda o=opt, m=model: o.step(square_loss(m)),
            RuntimeError,
            "Other code has changed",
        )
        refuse(model, lambda o=opt: o.apply([1.0, 2.0]), RuntimeError, "accept_changes")
        opt.accept_changes()
        opt.step(square_loss(model))


def test_a_head_that_is_frozen_later_does_not_move():
    model = perceptron()
    opt = optimizer(model)
    opt.step(square_loss(model))
    model[2].requires_grad_(False)
    with pytest.raises(RuntimeError, match="requires_grad") as caught:
        opt.step(square_loss(model))
    assert "accept_changes" not in str(caught.value)
    refuse(model, opt.accept_changes, RuntimeError, "'2.weight' was frozen")
    head = model[2].weight.detach().clone()
    optimizer(model).step(square_loss(model))
    assert torch.equal(model[2].weight, head)


@pytest.mark.parametrize(
    "how",
    [
        {"num_directions": 3},
        {"spacing": 0.5},
        {"directions": gs.Gaussian()},
        {"estimator": "antithetic"},
        {"momentum": 0.5},
        {"normalize": "spread"},
        {"maximize": True},
        {"samples": "paired"},
    ],
    ids=str,
)
def test_a_state_of_other_settings_is_refused_by_name(how):
    model = perceptron()
    state = optimizer(model, **how).state_dict()
    opt = optimizer(model)
    refuse(model, lambda: opt.load_state_dict(state), ValueError, next(iter(how)))
    refuse(model, lambda: optimizer(perceptron()[:1]).load_state_dict(state), ValueError, "another")
    opt.load_state_dict(optimizer(model, lr=0.3).state_dict())  # the learning rate is loaded
    assert opt.param_groups[0]["lr"] == 0.3


@pytest.mark.parametrize("name", ["spacing", "momentum", "betas"])
def test_a_group_has_no_settings_of_its_own_but_lr_and_weight_decay(name):
    model = perceptron()
    groups = [{"params": list(model.named_parameters()), "lr": 0.2, name: 0.5}]
    refuse(model, lambda: optimizer(groups), ValueError, f"its own '{name}'")


@pytest.mark.filterwarnings("ignore")
def test_quantised_layers_are_refused_however_the_parameters_are_given():
    quantization = pytest.importorskip("torch.ao.quantization")
    model = nn.Sequential(nn.Linear(5, 7), nn.LayerNorm(7), nn.Linear(7, 1))
    try:
        model = quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    except RuntimeError as error:
        pytest.skip(f"torch cannot quantise here: {error}")
    for given in (model, model.named_parameters(), [{"params": model.named_parameters()}]):
        refuse(model, lambda given=given: optimizer(given), TypeError, "quantised layers")
    rest = dict(model.named_parameters())  # said explicitly
    assert set(optimizer(rest)._parameters) == {"1.weight", "1.bias"}
    optimizer(perceptron().named_parameters(), mode="copy")  # another model is no matter


def test_a_learning_rate_must_be_given():
    with pytest.raises(TypeError, match="'lr'"):
        gs.torch.ZerothOrder(perceptron())


def test_steps_by_hand():
    model = perceptron()
    opt = optimizer(model)
    for call, error, match in (
        (lambda: opt.apply([1.0]), ValueError, "2 finite numbers"),
        (lambda: opt.apply([1.0, float("nan")]), ValueError, "2 finite numbers"),
        (lambda: opt.apply([1.0, 2.0], step=3), ValueError, "next step is 0"),
        (lambda: opt.weights([1.0]), ValueError, "3 evaluations"),
        (lambda: opt.weights([1.0, 2.0, float("nan")]), ValueError, "is nan"),
        (lambda: opt.perturbed(direction=2).__enter__(), ValueError, "below the number"),
        (lambda: opt.perturbed(direction=0, side=2).__enter__(), ValueError, "`side`"),
        (lambda: opt.direction("0.wieght", 0), ValueError, "Did you mean '0.weight'"),
        (lambda: opt.add_param_group({"params": []}), RuntimeError, "cannot be added"),
        (lambda: opt.load_state_dict({}), ValueError, "does not come from"),
        (lambda: opt.load_state_dict(optimizer(model, seed=1).state_dict()), ValueError, "seed=1"),
    ):
        refuse(model, call, error, match)
    with opt.perturbed(direction=0), pytest.raises(RuntimeError, match="already perturbed"):
        opt.step(square_loss(model))
    with pytest.raises(RuntimeError, match="already perturbed"), opt.perturbed(direction=0):
        opt.apply([1.0, 2.0])


def test_a_move_that_was_interrupted_is_not_gone_on_from(monkeypatch):
    model = perceptron()
    opt = optimizer(model)
    real = opt._mover.move

    def interrupted(*arguments):
        real(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(opt._mover, "move", interrupted)
    with pytest.raises(KeyboardInterrupt):
        opt.apply([1.0, 2.0])
    monkeypatch.undo()
    refuse(model, lambda: opt.step(square_loss(model)), RuntimeError, "interrupted")


def test_a_missing_torch_says_what_to_install():
    import subprocess
    import sys

    code = "import sys; sys.modules['torch'] = None\nimport gensmooth as gs\ngs.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'gensmooth[torch]'" in done.stderr
