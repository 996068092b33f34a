"""The example on real networks: its measurements on a tiny one, and a quick run of the whole."""

import math
from importlib import import_module

import numpy as np
import pytest

import gensmooth as gs
from gensmooth import theory
from torch_cases import torch  # skips where there is none

errors = import_module("examples.network_theory.errors")
main = import_module("examples.network_theory.__main__").main
D, L = 10, 4


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    layers = (torch.nn.Linear(1, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
    model = torch.nn.Sequential(*layers)
    parameters = {name: w.detach() for name, w in model.named_parameters()}
    batch = torch.linspace(-2, 2, 6)[:, None], torch.tensor([0, 1, 1, 0, 1, 1])
    made = errors.Network(model, parameters, batch)
    assert made.dim == D
    return made


def squared_errors(network, directions, *, fun=None, repetitions=1200, number=L, samples=None):
    return errors.squared_errors(
        fun or network.values,
        network.x,
        network.gradient(),
        directions,
        num_directions=number,
        spacing=1e-6,
        repetitions=repetitions,
        first_seed=0,
        samples=samples,
    )


def z_score(found, predicted):
    return (found.mean() - predicted) / (found.std(ddof=1) / math.sqrt(found.size))


CASES = {
    "gs": theory.iid(D, L, kurtosis=1.0),
    "bes": theory.iid(D, L, kurtosis=3.0),
    "gs-shrinkage": theory.iid(D, L, kurtosis=1.0).scaled(
        theory.optimal_variance(D, L, kurtosis=1.0)
    ),
    "orthogonal": theory.sphere(D, L),
    "low-rank": theory.iid(D, L),
}


@pytest.mark.parametrize("family", CASES)
def test_errors_on_a_network_are_those_of_the_lemma_and_not_of_a_twin(network, family):
    directions = errors.families(network)[family]
    gradient = network.gradient()
    found = squared_errors(network, directions)
    assert abs(z_score(found, errors.lemma(network, directions, gradient, L))) < 4
    wrong = theory.relative_mse(CASES[family]) * float(gradient @ gradient)
    assert abs(z_score(found, wrong)) > 4.5


def test_a_minibatch_for_all_points_adds_its_noise_and_not_that_of_one_for_each(network):
    gradient, N, number = network.gradient(), 2, 8
    found = squared_errors(
        network,
        gs.Bernoulli(),
        fun=network.noisy(N),
        number=number,
        samples="shared",
    )
    facts = {
        "gradient_norm2": float(gradient @ gradient),
        "noise_trace": np.square(network.noise(gradient)).sum(1).mean(),
        "num_samples": N,
    }
    moments = theory.iid(D, number, kurtosis=1.0)
    assert abs(z_score(found, theory.mse(moments, **facts, samples="shared"))) < 4
    assert abs(z_score(found, theory.mse(moments, **facts, samples="paired"))) > 4.5


def test_the_hessian_of_a_network(network):
    product = network.times_hessian()
    hessian = np.stack([product(row) for row in np.eye(D)])
    flat = torch.from_numpy(network.x)
    exact = torch.autograd.functional.hessian(network._loss, flat).numpy()
    np.testing.assert_allclose(hessian, exact, atol=1e-12)
    gradient = network.gradient()
    noise = network.noise(gradient)
    found = errors.curvature(network, gradient, noise, 2000)
    assert abs(found.trace - exact.trace()) < 4 * found.trace_error
    assert found.frobenius2 == pytest.approx(np.square(exact).sum(), rel=0.1)
    assert found.diagonal2 == pytest.approx(np.square(exact.diagonal()).sum(), rel=0.1)
    assert found.along == pytest.approx(gradient @ exact @ gradient)
    assert found.noise_along == pytest.approx(np.trace(exact @ np.cov(noise.T, bias=True)))


def test_a_quick_run_goes_on_where_it_was(tmp_path):
    pieces, tables = tmp_path / "pieces", tmp_path / "tables"
    options = ["--quick", "--out", str(pieces), "--tables", str(tables)]
    main(options)
    first = {file.name: file.read_bytes() for file in tables.iterdir()}
    names = ("errors", "landscape", "runs", "curves")
    assert set(first) == {f"network-{name}.csv" for name in names}
    for name in ("errors-convnet-0", "finetune-transformer-pilot-0-0.0-1"):
        (pieces / f"{name}.json").unlink()
    kept = {file: file.stat().st_mtime_ns for file in pieces.iterdir()}
    main(options)
    assert {file.name: file.read_bytes() for file in tables.iterdir()} == first
    assert {file: file.stat().st_mtime_ns for file in kept} == kept
    (pieces / "settings.json").write_text("{}")
    with pytest.raises(SystemExit, match="begun with other settings"):
        main(options)
