"""Bad numbers give plain errors, and the package imports nothing but the standard library."""

import doctest
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gensmooth import theory

M = theory.iid(4, 2)
QUADRATIC = {"spacing": 0.1, "trace2": 1.0, "frobenius2": 1.0}
BOUND = {"smoothness": 1.0, "bound": 1.0, "steps": 5}
WHOLE = {"gradient_norm2": 1.0, "samples": "independent"}

BAD = [
    (lambda: theory.iid(0, 2), "`dim` must be a whole number of at least 1, but is 0."),
    (lambda: theory.iid(2.5, 2), "`dim` must be a whole number of at least 1, but is 2.5."),
    (lambda: theory.sphere(3, 0), "`num_directions` must be a whole number of at least 1"),
    (lambda: theory.orthogonal(-1, 2), "`dim` must be"),
    (lambda: theory.gram_schmidt(3, -2), "`num_directions` must be"),
    (lambda: theory.hadamard(math.nan, 2), "`dim` must be"),
    (lambda: theory.iid(4, 2, variance=-0.1), "`variance` must be positive, but is -0.1."),
    (lambda: theory.iid(4, 2, variance=0.0), "`variance` must be positive, but is 0.0."),
    (lambda: theory.iid(4, 2, variance=math.inf), "`variance` must be finite, but is inf."),
    (lambda: theory.iid(4, 2, kurtosis=0.5), "`kurtosis` must be at least 1 (the smallest"),
    (lambda: theory.iid(4, 2, kurtosis=math.nan), "`kurtosis` must be at least 1"),
    (lambda: theory.optimal_variance(4, 2, kurtosis=-1), "`kurtosis` must be at least 1"),
    (lambda: M.scaled(-1.0), "`factor` must not be negative, but is -1.0."),
    (lambda: theory.optimal_scale(M.scaled(0.0)), "`moments.second` must be positive"),
    (lambda: theory.combine([]), "`groups` must contain at least one group"),
    (lambda: theory.combine([M, theory.iid(5, 2)]), "the same dimension, but have [4, 5]"),
    (lambda: theory.bernoulli_moments(1.0, 0.5), "`p` must be between 0 and 1"),
    (lambda: theory.bernoulli_moments(0.5, 0.0), "`m` must be positive, but is 0.0."),
    (lambda: theory.mse(M, gradient_norm2=-1.0), "`gradient_norm2` must not be negative"),
    (lambda: theory.mse(M, gradient_norm2=1.0, noise_trace=-1), "`noise_trace` must not be"),
    (lambda: theory.mse(M, gradient_norm2=1.0, num_samples=0), "`num_samples` must be"),
    (lambda: theory.mse(M, gradient_norm2=1.0, samples="own"), "'paired', 'shared', 'indep"),
    (lambda: theory.mse(M, gradient_norm2=1.0, estimator="fd"), "'forward', 'antithetic'"),
    (lambda: theory.mse(M, **WHOLE), '`spacing` is required: with samples="independent"'),
    (lambda: theory.mse(M, **WHOLE, spacing=0.1), "`value_variance` is required"),
    (lambda: theory.mse(M, **WHOLE, spacing=-0.1), "`spacing` must be positive, but is -0.1."),
    (
        lambda: theory.mse(
            M, gradient_norm2=1.0, estimator="one-point", spacing=0.1, value_variance=1.0
        ),
        "`value` is required: the one-point estimator",
    ),
    (
        lambda: theory.optimal_scale_whole(theory.mse_terms(M, gradient_norm2=1.0), scale="x"),
        "`scale` must be one of 'directions', 'estimate', but is 'x'.",
    ),
    (
        lambda: theory.gs_vs_bes_shrinkage(
            4, 2, gradient_norm2=1.0, noise_trace=1.0, samples="independent"
        ),
        "`samples` must be one of 'paired', 'shared'",
    ),
    (
        lambda: theory.quadratic_spacing_mse(4, 2, **QUADRATIC, diagonal2=0.1),
        "`diagonal2` must be at least 0.25",
    ),
    (
        lambda: theory.quadratic_spacing_mse(4, 2, **QUADRATIC, diagonal2=2.0),
        "`frobenius2` must be at least 2",
    ),
    (
        lambda: theory.quadratic_spacing_mse(4, 2, **QUADRATIC, diagonal2=1.0, sixth=3.0),
        "`sixth` must be at least 9 (kurtosis²",
    ),
    (
        lambda: theory.quadratic_spacing_mse_sphere(4, 2, **{**QUADRATIC, "frobenius2": 0.1}),
        "`frobenius2` must be at least 0.25",
    ),
    (lambda: theory.information_limit(0, 1), "`dim` must be"),
    (lambda: theory.convergence_bound(-1.0, 0.0, **BOUND), "`mse` must not be negative"),
    (lambda: theory.convergence_bound(1.0, math.nan, **BOUND), "`bias` must be finite"),
    (lambda: theory.convergence_learning_rate(smoothness=0.0, steps=3), "`smoothness` must be"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_bad_input(call, message: str):
    with pytest.raises(ValueError) as error:
        call()
    assert message in str(error.value)


def test_numpy_integers_are_whole_numbers():
    assert theory.iid(np.int64(4), np.int32(2)) == M
    assert type(theory.iid(np.int64(4), np.int32(2)).dim) is int


def test_values_that_cancel_need_no_spacing():
    for samples in ("paired", "shared"):
        for estimator in ("forward", "antithetic"):
            theory.mse(M, gradient_norm2=1.0, noise_trace=1.0, samples=samples, estimator=estimator)


def test_everything_public_is_listed_and_documented():
    assert theory.__all__ == sorted(theory.__all__)
    for name in theory.__all__:
        public = getattr(theory, name)
        assert public.__doc__ or name in ("EstimatorName", "NoiseKind", "SampleMode", "ScaleTarget")


@pytest.mark.usefixtures("fresh_interpreters")
def test_the_package_needs_only_the_standard_library():
    code = (
        "import sys, gensmooth; before = set(sys.modules); import gensmooth.theory; "
        "new = {m.split('.')[0] for m in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'gensmooth'}))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize(("name", "least"), [("theory.md", 15), ("pilot.md", 5)])
def test_the_examples_of_the_documentation_run(name: str, least: int):
    page = Path(__file__).parents[2] / "docs" / name
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried > least
