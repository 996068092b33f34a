"""A run is a log of L floats per step: replayed, resumed after kill -9, refused elsewhere."""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gensmooth as gs
from torch_cases import bits, decoder, loss_of, nn, perceptron, square_loss, torch

HELPERS = Path(__file__).parents[1] / "helpers"


def optimizer(model, **how):
    return gs.torch.ZerothOrder(model, **{"seed": 0, "num_directions": 3, "lr": 0.05} | how)


def trained(path, model, steps=4, **how):
    with gs.torch.Log(path) as log:
        opt = optimizer(model, log=log, **how)
        for _ in range(opt.steps_done, steps):
            opt.param_groups[0]["lr"] *= 0.9
            opt.step(square_loss(model))
    return model


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"method": "gs", "estimator": "antithetic"},
        {"momentum": 0.9, "weight_decay": 0.1},
        {"method": "low-rank"},
        {"directions": gs.torch.SparseTiles(density=0.5)},
        {"mode": "in-place"},
        {"method": "bes-shrinkage", "maximize": True, "normalize": "spread"},
    ],
    ids=str,
)
def test_a_replay_rebuilds_the_model_bit_for_bit(tmp_path, dtype, how):
    path = tmp_path / "run.log"
    model = trained(path, perceptron(dtype), **how)
    rebuilt = perceptron(dtype)
    assert gs.torch.replay(rebuilt, path) == 4
    assert bits(rebuilt) == bits(model) != bits(perceptron(dtype))
    part = perceptron(dtype)
    assert gs.torch.replay(part, gs.torch.Log(path), until=2) == 2
    assert bits(part) == bits(trained(tmp_path / "short.log", perceptron(dtype), steps=2, **how))


@pytest.mark.parametrize("how", [{}, {"momentum": 0.9}, {"mode": "in-place"}], ids=str)
def test_a_run_goes_on_where_its_log_ends(tmp_path, how):
    whole = trained(tmp_path / "whole.log", perceptron(torch.bfloat16), steps=5, **how)
    path = tmp_path / "parts.log"
    with gs.torch.Log(path) as log:
        model = perceptron(torch.bfloat16)
        opt = optimizer(model, log=log, **how)
        rates = []
        for _ in range(3):
            opt.param_groups[0]["lr"] *= 0.9
            rates.append(opt.param_groups[0]["lr"])
            opt.step(square_loss(model))
    with gs.torch.Log(path) as log:
        model = perceptron(torch.bfloat16)
        opt = optimizer(model, log=log, **how)
        assert opt.steps_done == 3
        opt.param_groups[0]["lr"] = rates[-1]
        for _ in range(2):
            opt.param_groups[0]["lr"] *= 0.9
            opt.step(square_loss(model))
    assert bits(model) == bits(whole)
    assert path.read_bytes() == (tmp_path / "whole.log").read_bytes()


def test_a_log_is_small_and_says_what_was_done(tmp_path):
    model = decoder()
    with gs.torch.Log(tmp_path / "run.log") as log:
        opt = gs.torch.ZerothOrder(model, num_directions=3, seed=5, lr=0.01, log=log)
        size = log.path.stat().st_size
        losses = [opt.step(loss_of(model)) for _ in range(3)]
        assert log.path.stat().st_size - size == 3 * (8 + 4 + 8 + 2 * 8 + 3 * 8 + 4)
    header, records = gs.torch.Log(tmp_path / "run.log").read()
    assert header["seed"] == 5
    assert header["base"] == bits(decoder())
    assert [each.step for each in records] == [0, 1, 2]
    assert [each.loss for each in records] == losses
    assert {each.rates for each in records} == {(0.01,)}
    twin = decoder()
    own = gs.torch.ZerothOrder(twin, num_directions=3, seed=5, lr=0.01)
    for record in records:
        own.apply(record.weights, step=record.step, loss=record.loss)
    assert bits(twin) == bits(model)


def test_a_record_that_was_cut_off_is_left_out(tmp_path):
    path = tmp_path / "run.log"
    trained(path, perceptron())
    data = path.read_bytes()
    header = data.index(b"\n", 30) + 1
    for cut in (len(data) - 1, len(data) - 30, header + 5, header):
        shorter = tmp_path / "cut.log"
        shorter.write_bytes(data[:cut])
        model = perceptron()
        steps = gs.torch.replay(model, shorter)
        assert steps == (cut - header) // ((len(data) - header) // 4)
        with gs.torch.Log(shorter) as log:
            opt = optimizer(perceptron(), log=log)
            assert opt.steps_done == steps
        assert len(shorter.read_bytes()) == header + steps * (len(data) - header) // 4
    for cut in (0, 5, 40):
        shorter.write_bytes(data[:cut])
        assert gs.torch.Log(shorter).read() == (None, [])
        with pytest.raises(gs.torch.LogError, match="empty"):
            gs.torch.replay(perceptron(), shorter)
        trained(shorter, perceptron())
        assert shorter.read_bytes() == data


@pytest.mark.parametrize(
    ("model", "how", "match"),
    [
        (lambda: perceptron(seed=1), {}, "other weights"),
        (lambda: perceptron(torch.float16), {}, "another model: it has the parameter '0.weight'"),
        (decoder, {}, "another model"),
        (lambda: perceptron()[:1], {}, "another model"),
        (perceptron, {"seed": 1}, "seed=0, but this run has seed=1"),
        (perceptron, {"spacing": 0.5}, "spacing=0.001"),
        (perceptron, {"num_directions": 4}, "num_directions=3"),
        (perceptron, {"method": "gs"}, "directions=bes|directions='bes'"),
        (perceptron, {"momentum": 0.5}, "momentum=0.0"),
    ],
)
def test_a_log_of_another_model_or_run_is_refused(tmp_path, model, how, match):
    path = tmp_path / "run.log"
    trained(path, perceptron())
    other, data = model(), path.read_bytes()
    before = bits(other)
    with pytest.raises(gs.torch.LogError, match=match):
        optimizer(other, log=gs.torch.Log(path), **how)
    if not how:
        with pytest.raises(gs.torch.LogError, match=match):
            gs.torch.replay(other, path)
    assert bits(other) == before
    assert path.read_bytes() == data


def test_damaged_logs_and_other_files_are_refused(tmp_path):
    path = tmp_path / "run.log"
    trained(path, perceptron())
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    for bad, match in ((bytes(data), "damaged"), (b"hello, world, and more", "not a log")):
        path.write_bytes(bad)
        with pytest.raises(gs.torch.LogError, match=match):
            gs.torch.replay(perceptron(), path)
    with pytest.raises(gs.torch.LogError, match="no log"):
        gs.torch.replay(perceptron(), tmp_path / "none.log")
    trained(tmp_path / "good.log", perceptron())
    with pytest.raises(ValueError, match="has 4 steps"):
        gs.torch.replay(perceptron(), tmp_path / "good.log", until=5)


def test_two_runs_cannot_write_to_one_log(tmp_path):
    log = gs.torch.Log(tmp_path / "run.log")
    optimizer(perceptron(), log=log)
    with pytest.raises(gs.torch.LogError, match="in use"):
        optimizer(perceptron(), log=gs.torch.Log(tmp_path / "run.log"))
    log.close()


def test_a_log_knows_no_changes_by_others(tmp_path):
    model = perceptron()
    with gs.torch.Log(tmp_path / "run.log") as log:
        opt = optimizer(model, log=log)
        with pytest.raises(gs.torch.LogError, match="cannot record changes"):
            opt.accept_changes()
        other = optimizer(perceptron())
        other.apply([1.0, 2.0, 3.0])
        with pytest.raises(gs.torch.LogError, match="Do not load a state"):
            opt.load_state_dict(other.state_dict())


# --- processes -----------------------------------------------------------------------------------


def ranks(folder, world, *runs):
    """Let this many ranks make some runs, and return what each rank said about each."""
    asked = {"world": world, "folder": str(folder), "meeting": f"meeting-{world}", "runs": runs}
    running = [
        subprocess.Popen(
            [sys.executable, str(HELPERS / "torch_ranks.py"), json.dumps(asked | {"rank": rank})],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(world)
    ]
    return [process.communicate(timeout=400)[0].splitlines() for process in running]


def alone(**how):
    """The same run in this process."""
    model = decoder(torch.bfloat16)
    how = {"lr": 0.02, "spacing": 0.01, "num_directions": 5, "seed": 0} | how
    opt = gs.torch.ZerothOrder(model, **how)
    for _ in range(opt.steps_done, 3):
        opt.step(loss_of(model))
    return bits(model)


def test_two_ranks(tmp_path):
    one, two = ranks(
        tmp_path,
        2,
        {},
        {"split": "batches"},
        {"seeds": {"1": 7}},
        {"weights": {"1": 7}},
        {"broken": [1, 2]},
    )
    assert one[0] == two[0] == alone()
    assert one[1] == two[1] == alone()  # the mean of two equal batches
    assert "same seed, but have rank 0: 0, rank 1: 7" in one[2] == two[2]
    assert "same parameters" in one[3] == two[3]
    assert "Step 2 failed on rank 1" in one[4]
    assert "ZeroDivisionError" in two[4]


def test_wrappers_for_many_ranks_change_no_direction_or_say_that_they_cannot_be_used(tmp_path):
    whole = [
        {"wrap": "ddp"},
        {"wrap": "ddp", "named": 1},
        {"wrap": "compiled ddp"},
        {"wrap": "part"},
    ]
    sharded = [{"wrap": "fsdp2"}, {"wrap": "fsdp"}, {"wrap": "tensor parallel"}]
    one, two = ranks(tmp_path, 2, *whole, {"wrap": "ddp", "split": "none"}, *sharded)
    assert one == two
    assert one[:4] == [alone()] * 4
    assert "`ranks` is not set" in one[4]
    for said, by in zip(one[5:], ("FSDP2", "FullyShardedDataParallel", "tensor par"), strict=True):
        assert by in said
        assert "is not supported" in said


def test_names_are_those_of_the_plain_model(tmp_path):
    """So that a log fits the model in or out of a wrapper."""

    class Own(nn.Module):  # whose part has the same name as a wrapper's
        def __init__(self):
            super().__init__()
            self.module, self.head = perceptron(), nn.Linear(1, 1)

    model = Own()
    assert "module.0.weight" in optimizer(model)._parameters
    model.head.requires_grad_(False)
    assert "module.0.weight" in optimizer(model)._parameters
    assert "module.0.weight" in optimizer(model.named_parameters())._parameters
    wrapped = trained(tmp_path / "run.log", nn.DataParallel(perceptron()))
    rebuilt = perceptron()
    assert gs.torch.replay(rebuilt, tmp_path / "run.log") == 4
    assert bits(rebuilt) == bits(wrapped.module)
    parted = nn.Sequential(nn.DataParallel(perceptron()), nn.Linear(1, 1))
    for given in (parted, parted.named_parameters()):
        assert list(optimizer(given)._parameters)[:2] == ["0.0.weight", "0.0.bias"]


def test_a_lost_rank_is_an_error_that_names_the_step_and_the_log_goes_on(tmp_path):
    first, second = ranks(tmp_path, 2, {"lost": [1, 2], "log": "run.log"})
    assert "RanksError: Step 2: the exchange with the other ranks failed" in first[0]
    assert second == []
    _, records = gs.torch.Log(tmp_path / "run.log").read()
    assert [(each.step, each.ranks) for each in records] == [(0, 2), (1, 2)]
    assert all(math.isfinite(each.loss) for each in records)
    shutil.copy(tmp_path / "run.log", tmp_path / "copy.log")
    expected = alone()
    # three ranks go on where two were: the same bits as in one run of one process
    assert ranks(tmp_path, 3, {"log": "run.log"}, {}) == [[expected, expected]] * 3
    with gs.torch.Log(tmp_path / "copy.log") as log:  # and so does one process by itself
        assert alone(log=log) == expected
    replayed = decoder(torch.bfloat16)
    assert gs.torch.replay(replayed, tmp_path / "run.log") == 3
    assert bits(replayed) == expected


def test_a_killed_run_loses_nothing(tmp_path):
    assert ranks(tmp_path, 1, {"lost": [0, 2], "log": "run.log"}) == [[]]
    with gs.torch.Log(tmp_path / "run.log") as log:
        assert len(log.read()[1]) == 2
        assert alone(log=log) == alone()


def test_in_place_needs_a_process_of_its_own(monkeypatch):
    class Two:
        def __init__(self, *_):
            self.number = 2

    monkeypatch.setattr("gensmooth.torch.zeroth_order.Ranks", Two)
    with pytest.raises(ValueError, match="drift apart"):
        optimizer(perceptron(), mode="in-place", ranks="directions")
