"""Perturbed values while a layer runs: exact, complete, and without writing to a parameter."""

import copy

import pytest

import gensmooth as gs
from torch_cases import (
    TYPES,
    bits,
    decoder,
    loss_of,
    nn,
    perceptron,
    room_of,
    square_loss,
    tokens,
    torch,
)


def optimizer(model, **how):
    return gs.torch.ZerothOrder(
        model, **{"lr": 1e-6, "seed": 0, "num_directions": 2, "spacing": 0.01} | how
    )


def moved_by_hand(model, opt, direction, side):
    """A copy of the model whose parameters are the perturbed ones."""
    twin = type(model)() if not isinstance(model, nn.Sequential) else perceptron()
    twin = twin.to(next(model.parameters()).dtype)
    twin.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, w in twin.named_parameters():
            wide = torch.float64 if w.dtype == torch.float64 else torch.float32
            amount = torch.tensor(side * 0.01, dtype=wide)
            w.copy_((w.to(wide) + amount * opt.direction(name, direction).to(wide)).to(w.dtype))
    return twin


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["layers", "copy"])
def test_a_perturbed_model_is_the_model_at_perturbed_parameters(dtype, mode):
    model = decoder(dtype)
    opt, before = optimizer(model, mode=mode), bits(model)
    twin = moved_by_hand(model, opt, 1, -1)
    with torch.no_grad():
        expected = twin(tokens())
        for _ in range(2):  # watched, and not
            with opt.perturbed(direction=1, side=-1):
                found = model(tokens())
            assert torch.equal(found, expected)
    assert not torch.equal(found, model(tokens()))
    assert bits(model) == before


@pytest.mark.parametrize("dtype", TYPES)
def test_evaluations_leave_every_parameter_as_it_was_to_the_bit(dtype):
    model = perceptron(dtype)
    opt, before = optimizer(model, num_directions=50), bits(model)
    for _ in range(4):
        for direction in range(50):
            with opt.perturbed(direction=direction, side=1):
                square_loss(model)()
    assert bits(model) == before


def test_in_place_evaluations_round_and_the_rounding_is_small():
    model = decoder(torch.bfloat16)
    opt = optimizer(model, mode="in-place", num_directions=20)
    before = [w.detach().clone() for w in model.parameters()]
    twin = moved_by_hand(model, opt, 0, 1)
    with torch.no_grad(), opt.perturbed(direction=0, side=1):
        assert torch.equal(model(tokens()), twin(tokens()))
    for direction in range(20):
        with opt.perturbed(direction=direction, side=1):
            pass
    changed = sum(int((a != b).sum()) for a, b in zip(before, model.parameters(), strict=True))
    assert changed > 0  # what the other modes are for
    for a, b in zip(before, model.parameters(), strict=True):
        # each way rounds by half a unit in the last place of a number near c or w
        assert float((a - b.data).abs().max()) <= 21 * 2**-8 * (0.01 + float(a.abs().max()))


def test_scratch_memory_is_that_of_the_largest_layer():
    model = nn.Sequential(nn.Linear(64, 640), nn.Linear(640, 8), nn.Linear(8, 8))
    opt = optimizer(model)
    opt.step(lambda: model(torch.ones(64)).sum())
    assert opt.scratch_bytes == 64 * 640 * 4 + 640 * 4


def test_tied_weights_are_one_parameter_with_one_direction():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    model = Tied()
    opt = optimizer(model)
    shift = 0.01 * opt.direction("first.weight", 0)
    biases = [w + 0.01 * opt.direction(f"{n}.bias", 0) for n, w in
              (("first", model.first.bias), ("second", model.second.bias))]  # fmt: skip
    x, weight = torch.randn(3, 4), model.first.weight.detach() + shift
    expected = torch.addmm(biases[1], torch.addmm(biases[0], x, weight.T), weight.T)
    with opt.perturbed(direction=0):
        assert torch.equal(model(x), expected)


def test_frozen_parameters_and_buffers_are_left_alone():
    model = decoder()
    model.embedding.weight.requires_grad_(False)
    model.norm.requires_grad_(False)
    before = {name: w.detach().clone() for name, w in model.state_dict().items()}
    opt = optimizer(model, lr=0.1)
    opt.step(loss_of(model))
    after = model.state_dict()
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert still == {"embedding.weight", "norm.weight", "norm.bias", "count"}


@pytest.mark.parametrize("how", ["around", "inside", "in place"])
def test_compiled_modules(how):
    model = perceptron()
    expected = {}
    opt = optimizer(model, lr=0.1)
    plain_loss = opt.step(square_loss(model))
    expected = bits(model)
    model = perceptron()
    if how == "around":
        model = torch.compile(model, backend="eager")
    elif how == "inside":
        model[0] = torch.compile(model[0], backend="eager")
    else:
        model[0].compile(backend="eager")
    opt = optimizer(model, lr=0.1)
    square_loss(model)()  # compiled before the optimiser sees it run
    assert opt.step(square_loss(model)) == plain_loss
    parameters = {n.replace("_orig_mod.", ""): w for n, w in model.named_parameters()}
    assert gs.torch.fingerprint(parameters) == expected


def test_a_layer_that_is_compiled_between_steps_stays_so():
    found = []
    for compiled in (False, True):
        model = perceptron()
        opt = optimizer(model, lr=0.1)
        for step in range(4):
            opt.step(square_loss(model))
            if compiled and step == 1:
                model[0].compile(backend="eager")
                own = model[0]._compiled_call_impl
        found.append(bits(model))
    assert model[0]._compiled_call_impl is own
    assert found[0] == found[1]


class Careful(nn.Module):
    """Runs a layer that fails, and goes on."""

    def __init__(self):
        super().__init__()
        self.first, self.fails, self.last = nn.Linear(4, 4), nn.Linear(5, 4), nn.Linear(4, 4)

    def forward(self, x):
        x = self.first(x)
        try:
            x = self.fails(x)
        except RuntimeError:
            x = torch.tanh(x)
        return self.last(x)


def test_an_error_that_the_model_catches():
    model, x = Careful(), torch.ones(1, 4)
    opt, before = optimizer(model), bits(model)
    twin = moved_by_hand(model, opt, 1, 1)
    for _ in range(4):
        with opt.perturbed(direction=1), torch.no_grad():
            assert torch.equal(model(x), twin(x))
        assert bits(model) == before
    assert opt._layers._plan is not None


def test_a_copy_of_the_model_that_an_evaluation_makes_is_a_plain_one():
    model, x = perceptron(), torch.ones(1, 5)
    opt = optimizer(model)
    for _ in range(3):
        with opt.perturbed(direction=0), torch.no_grad():
            model(x)
            other = copy.deepcopy(model)
            assert not any("_compiled_call_impl" in vars(each) for each in other.modules())
            other(x)


def test_a_layer_may_return_its_parameter():
    class Prompt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Parameter(torch.zeros(3, 4))

        def forward(self):
            return {"words": self.words, "shape": self.words.shape}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.prompt, self.head = Prompt(), nn.Linear(4, 30)

        def forward(self):
            prompt = self.prompt()["words"]
            self.head(prompt)  # the buffer's next turn
            return prompt

    model = Model()
    opt = optimizer(model)
    for _ in range(2):
        with opt.perturbed(direction=0):
            assert torch.equal(model(), 0.01 * opt.direction("prompt.words", 0))


def test_recurrent_layers_and_parametrizations():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(3, 4, batch_first=True)
            self.head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 1))

        def forward(self, x):
            return self.head(self.rnn(x)[0])

    torch.manual_seed(0)
    model = Model()
    x = torch.randn(2, 5, 3)
    layered, copied = optimizer(model), optimizer(model, mode="copy")
    with layered.perturbed(direction=0):
        found = model(x)
    with copied.perturbed(direction=0):
        assert torch.equal(model(x), found)
    assert not torch.equal(model(x), found)


def test_parameters_that_are_not_contiguous():
    model = nn.Conv2d(3, 8, 3).to(memory_format=torch.channels_last)
    twin = nn.Conv2d(3, 8, 3)
    twin.load_state_dict(model.state_dict())
    assert not model.weight.is_contiguous()
    for each in (model, twin):
        opt = optimizer(each, lr=0.1)
        opt.apply([1.0, -2.0])
    assert torch.equal(model.weight, twin.weight)


class Reordered(nn.Module):
    """Layers that run in an order that may change; the last one runs another inside."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(5)])
        self.wide = nn.Sequential(nn.Linear(8, 40), nn.Linear(40, 8))  # the buffer: a few layers
        self.outer = Outer(self.layers[4])
        self.order = [0, 1, 2, 3]

    def forward(self, x):
        for i in self.order:
            part = self.wide if i == "wide" else self.outer if i == "outer" else self.layers[i]
            x = torch.tanh(part(x))
        return x


class Outer(nn.Module):
    """A layer with a layer inside its forward."""

    def __init__(self, inner):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.inner = inner

    def forward(self, x):
        return self.inner(x @ self.weight) @ self.weight


ORDERS = [
    *[["wide", 0, 1, 2, 3]] * 3,  # from the third on, layers are perturbed together
    ["wide", 0, 3, 0, 1, 0],  # 3 takes the place of 0, which was perturbed with 1 and 2
    *[["wide", 0, 1]] * 3,
    ["wide", 0, 1, 2, 3],
    [3, 3, 2, "wide", 3],
    *[[3, 3, 2, "wide", 3]] * 3,
    ["wide", 0, "outer", 4, 1],
    *[["wide", 4, "outer", 0, 4]] * 3,
    *[["wide", 0, 1, 2, 3]] * 4,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_layers_may_run_in_any_order_and_number(dtype, monkeypatch):
    """Those that ran one after the other are perturbed at once; another order is noticed."""
    monkeypatch.setattr("gensmooth.torch.layers._SURPRISES", 100)
    torch.manual_seed(0)
    model = Reordered().to(dtype)
    opt, before = optimizer(model), bits(model)
    monkeypatch.setattr(opt._layers, "_check_seen", opt._layers._see_planned)  # some are left out
    twin, x, together = moved_by_hand(model, opt, 1, 1), torch.randn(2, 8).to(dtype), 0
    scratch: list[int] = []
    for order in ORDERS:
        model.order = twin.order = order
        with torch.no_grad():
            expected = twin(x)
            with opt.perturbed(direction=1):
                found = model(x)
                together += opt._layers._open is not None
            assert bits(model) == before
            assert torch.equal(found, expected), order
            own = model(x)
        assert not torch.equal(found, own)
        scratch.append(opt.scratch_bytes)
    assert together >= 6
    assert scratch[0] == scratch[11]  # together they take no more than one by one
    assert not opt._layers._originals


def test_an_error_among_layers_that_were_perturbed_at_once():
    model = perceptron()
    opt, before, x = optimizer(model), bits(model), torch.ones(1, model[0].in_features)
    for _ in range(3):
        with opt.perturbed(direction=0), torch.no_grad():
            expected = model(x)
    assert opt._layers._plan
    with pytest.raises(RuntimeError), opt.perturbed(direction=0), torch.no_grad():
        model(torch.ones(1, 1000))
    assert bits(model) == before
    with opt.perturbed(direction=0), torch.no_grad():
        assert torch.equal(model(x), expected)
    assert bits(model) == before


def test_what_lies_in_memory_otherwise_moves_like_the_rest():
    """One direction moves all contiguous parameters at once, and the others one by one."""
    found = []
    for transposed in (False, True):
        model = perceptron()
        weight = model[0].weight
        if transposed:
            weight.data = weight.data.T.contiguous().T
        assert weight.is_contiguous() != transposed
        opt = optimizer(model, num_directions=1)
        for amount in (0.3, -0.1):
            opt.apply([amount])
        found.append([w.detach().clone() for w in model.parameters()])
    assert all(map(torch.equal, *found))
    assert not torch.equal(found[0][0], perceptron()[0].weight)


def test_hooks_of_others_see_perturbed_values_and_ours_do_not_stay():
    """Before a layer's own hooks its parameters are perturbed; when all have run, they are not."""
    layer, seen = nn.Linear(3, 3), {}

    def note(when):
        return lambda module, *_: seen.setdefault(when, []).append(module.weight.detach().clone())

    before = layer.register_forward_pre_hook(note("before"))
    after = layer.register_forward_hook(note("after"))
    own, opt = layer.weight.detach().clone(), optimizer(layer)
    moved = own + torch.tensor(0.01) * opt.direction("weight", 1)
    for _ in range(3):
        with opt.perturbed(direction=1), torch.no_grad():
            layer(torch.ones(1, 3))
        assert torch.equal(layer.weight, own)
        assert list(layer._forward_pre_hooks) == [before.id]
        assert list(layer._forward_hooks) == [after.id]
        assert not layer._forward_hooks_always_called
        assert "_compiled_call_impl" not in vars(layer)
    assert all(torch.equal(found, moved) for when in seen.values() for found in when)
    assert [len(when) for when in seen.values()] == [3, 3]


def test_a_parameter_that_nothing_uses_is_noticed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.left_over = nn.Linear(2, 1), nn.Linear(2, 1)

        def forward(self, x):
            return self.used(x)

    model = Model()
    before = bits(model)
    closure = lambda: model(torch.ones(2)).sum()  # noqa: E731
    with pytest.raises(gs.torch.UnusedError, match=r"'left_over.weight' \(and 1 more\)"):
        optimizer(model).step(closure)
    assert bits(model) == before
    optimizer(model, allow_unused=True).step(closure)
    assert bits(model) != before


class Encoder(nn.Module):
    """What ``eval()`` runs as one fused operation for each layer."""

    def __init__(self, attention_only=False):
        super().__init__()
        self.embedding = nn.Embedding(11, 16)
        if attention_only:
            self.encoder = nn.MultiheadAttention(16, 2, batch_first=True)
        else:
            layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens, padding=None):
        h = self.embedding(tokens)
        if isinstance(self.encoder, nn.MultiheadAttention):
            h = self.encoder(h, h, h, need_weights=False)[0]
        else:
            h = self.encoder(h, src_key_padding_mask=padding)
        return self.head(h.mean(1))


def encoder_run(train, named=False, attention_only=False, padded=False, **how):
    """The losses of all evaluations of three steps, and the parameters after them."""
    torch.manual_seed(0)
    model = Encoder(attention_only).train(train)
    words, answers = torch.arange(40).reshape(5, 8) % 11, torch.arange(5) % 3
    padding = torch.arange(8).expand(5, 8) >= 5 if padded else None
    losses = []

    def closure():
        loss = nn.functional.cross_entropy(model(words, padding), answers)
        losses.append(float(loss))
        return loss

    with torch.no_grad():
        torch.manual_seed(1)
        own = float(closure())
    opt = optimizer(model.named_parameters() if named else model, lr=0.05, **how)
    opt.step(closure)
    assert train or own == losses[1]  # evaluated as the user would
    for _ in range(2):
        opt.step(closure)
    return losses, bits(model), opt


@pytest.mark.filterwarnings("ignore:.*nested tensors")
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("what", [{}, {"attention_only": True}, {"padded": True}], ids=str)
@pytest.mark.parametrize("train", [False, True])
def test_fused_paths_of_torch_are_followed_to_the_bit(named, what, train, monkeypatch):
    """Layers that torch runs as one operation do not call the modules inside them."""
    calls = []
    for name in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention"):
        fused = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *a, f=fused, **k: (calls.append(1), f(*a, **k))[1])
    losses, after, _ = encoder_run(train, mode="copy", **what)
    assert bool(calls) == (not train)
    for how in ({}, {"allow_unused": True}):
        found, found_after, opt = encoder_run(train, named, **what, **how)
        assert found == losses
        assert found_after == after
        if not (train or "attention_only" in what):
            layer = Encoder().encoder.layers[0]
            assert opt.scratch_bytes == sum(room_of(w) for w in layer.parameters())


def test_a_model_that_changes_its_path_is_an_error_or_is_watched():
    """Fused for some batches only: a parameter is then read elsewhere than in the first."""
    torch.manual_seed(0)
    words, found = torch.arange(40).reshape(5, 8) % 11, {}
    for how in ({"mode": "copy"}, {"allow_unused": True}, {}):
        torch.manual_seed(0)
        model = Encoder().eval()
        opt, losses = optimizer(model, lr=0.05, **how), []

        def closure(model=model, losses=losses):
            torch.backends.mha.set_fastpath_enabled(len(losses) > 4)
            try:
                losses.append(float(model(words).square().mean()))
            finally:
                torch.backends.mha.set_fastpath_enabled(True)
            return losses[-1]

        if how:
            found[str(how)] = [opt.step(closure) for _ in range(4)] + losses
        else:
            with pytest.raises(gs.torch.UnusedError, match="allow_unused=True"):
                [opt.step(closure) for _ in range(4)]
    assert len({tuple(each) for each in found.values()}) == 1


@pytest.mark.parametrize("mode", ["layers", "copy"])
@pytest.mark.parametrize("known", [False, True])
def test_a_compiled_function_of_the_model_gives_the_same_losses(mode, known):
    plain = perceptron()
    expected = [optimizer(plain, lr=0.1).step(square_loss(plain)), bits(plain)]
    model = perceptron()
    closure = torch.compile(square_loss(model), backend="eager")
    if known:
        closure()
    assert [optimizer(model, lr=0.1, mode=mode).step(closure), bits(model)] == expected


def test_a_compiled_module_stays_compiled_and_reads_outside_of_it_are_seen():
    class Tied(nn.Module):
        def __init__(self, compiled):
            super().__init__()
            torch.manual_seed(0)
            self.embedding, self.block = nn.Embedding(5, 4), nn.Linear(4, 4)
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.runs = []
            if compiled:
                backend = lambda graph, _: lambda *a: (self.runs.append(1), graph(*a))[1]  # noqa: E731
                self.block = torch.compile(self.block, backend=backend)
                self.frozen = torch.compile(self.frozen, backend=backend)

        def forward(self):
            h = self.frozen(self.block(self.embedding(torch.arange(5))))
            return (h @ self.embedding.weight.T).square().mean()

    found = []
    for compiled in (False, True):
        model = Tied(compiled)
        opt = optimizer(model, lr=0.1)
        opt.step(model)
        names = {n.replace("_orig_mod.", ""): w for n, w in model.named_parameters()}
        found.append(gs.torch.fingerprint(names))
    assert found[0] == found[1]
    assert len(model.runs) == 6  # two modules in three evaluations


@pytest.mark.parametrize("mode", ["layers", "copy", "in-place"])
def test_autocast_around_a_step_does_not_remember_other_values(mode):
    found = []
    for around in (False, True):
        model, values = perceptron(), []
        opt, loss = optimizer(model, lr=0.1, spacing=0.05, mode=mode), square_loss(model)

        def closure(values=values, loss=loss):
            with torch.autocast("cpu", torch.bfloat16):
                values.append(float(loss()))
            return values[-1]

        with torch.autocast("cpu", torch.bfloat16, enabled=around):
            opt.step(closure)
        found.append((values, bits(model)))
    assert len(set(found[0][0])) == 3
    assert found[0] == found[1]


def test_a_view_that_was_made_before_is_noticed():
    model = perceptron()
    row, loss = model[0].weight.data[0], square_loss(model)
    before = bits(model)
    with pytest.raises(RuntimeError, match=r"view of the parameter '0.weight'.*'in-place'"):
        optimizer(model).step(lambda: loss() + row.sum())
    assert bits(model) == before
    rounding = optimizer(model, mode="in-place", lr=0.1)
    rounding.step(lambda: loss() + row.sum())
    other = perceptron()
    optimizer(other, lr=0.1).step(lambda: square_loss(other)() + other[0].weight.data[0].sum())
    for v, w in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(v, w)


def test_named_parameters_find_their_layers():
    one, other = decoder(), decoder()
    opt = gs.torch.ZerothOrder(one.named_parameters(), lr=0.1, num_directions=3, seed=0)
    opt.step(loss_of(one))
    gs.torch.ZerothOrder(other, lr=0.1, num_directions=3, seed=0).step(loss_of(other))
    assert bits(one) == bits(other)


def test_an_error_in_the_model_leaves_it_as_it_was():
    model = perceptron()
    before, opt = bits(model), optimizer(model)

    def broken():
        model(torch.ones(5))
        return model(torch.ones(6))

    for mode in ("layers", "copy"):
        opt = optimizer(model, mode=mode)
        with pytest.raises(RuntimeError, match="shape"):
            opt.step(broken)
        assert bits(model) == before
        assert "_compiled_call_impl" not in vars(model[0])
        opt.step(square_loss(model))
        model.load_state_dict(perceptron().state_dict())
