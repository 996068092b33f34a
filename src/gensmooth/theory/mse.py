r"""The total mean squared error of a gradient estimate, including noise.

The Lemma (`thm:fdempmse`) assumes that each direction draws its own samples. The effect of noise
depends on which evaluations share samples, so each of the three protocols has its own formula:

- ``"paired"``: each direction has its own N samples, used at both of its points (the Lemma);
- ``"shared"``: the same N samples at every point of the iteration (eq. `fdempirical` as written);
- ``"independent"``: every evaluation draws its own N samples.

Write G for :math:`\|\nabla F\|^2`, V for :math:`\mathrm{Var}_\xi[\nabla f]`, :math:`\sigma_f^2` for
:math:`\mathrm{Var}_\xi[f]`, and (a, b, s) for the `Moments`. The formulas hold to order
:math:`c^0` as the spacing c → 0, for directions whose law is invariant under a flip of all their
signs. For functions that are linear in θ for each ξ, they are exact at every spacing.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from gensmooth import checks
from gensmooth.theory.moments import Moments

SampleMode = Literal["paired", "shared", "independent"]
EstimatorName = Literal["forward", "antithetic", "one-point"]


class MseTerms(NamedTuple):
    r"""The MSE of a gradient estimate, term by term; see `mse_terms`.

    Attributes:
        gradient_norm2: :math:`G`, the error of estimating zero.
        signal: :math:`a G`, the mean inner product of the estimate and the gradient.
        second: :math:`b G`, the mean squared length of the noise-free estimate.
        gradient_noise: The contribution of the noise in the samples' gradients.
        curvature: The product of the value and the Laplacian (one-point only; may be negative).
        value_noise: The contribution of the noise in the samples' values, divided by the squared
            spacing.
        offset: The contribution of the value itself, divided by the squared spacing (one-point
            only).
    """

    gradient_norm2: float
    signal: float
    second: float
    gradient_noise: float
    curvature: float
    value_noise: float
    offset: float

    @property
    def direction_error(self) -> float:
        """The noise-free part, (1 − 2a + b) G (eq. `msepart1`)."""
        return self.gradient_norm2 - 2.0 * self.signal + self.second

    @property
    def total(self) -> float:
        """The MSE."""
        noise = self.gradient_noise + self.curvature + self.value_noise + self.offset
        return self.direction_error + noise

    def scaled_directions(self, factor: float) -> "MseTerms":
        r"""Return the terms after multiplying every direction by :math:`\sqrt v`, v = `factor`.

        At the same spacing, this also moves the points closer to θ. Value noise is divided by their
        squared distance from θ, so it decreases only linearly in v.
        """
        v = checks.moderate("factor", checks.nonnegative("factor", factor))
        return MseTerms(
            gradient_norm2=self.gradient_norm2,
            signal=v * self.signal,
            second=v**2 * self.second,
            gradient_noise=v**2 * self.gradient_noise,
            curvature=v**2 * self.curvature,
            value_noise=v * self.value_noise,
            offset=v * self.offset,
        )

    def scaled_estimate(self, factor: float) -> "MseTerms":
        """Return the terms after multiplying the estimate by `factor`."""
        w = checks.moderate("factor", checks.nonnegative("factor", factor))
        return MseTerms(self.gradient_norm2, w * self.signal, *(w**2 * term for term in self[2:]))


def mse_terms(
    moments: Moments,
    *,
    gradient_norm2: float,
    noise_trace: float = 0.0,
    num_samples: int = 1,
    samples: SampleMode = "paired",
    estimator: EstimatorName = "forward",
    spacing: float | None = None,
    value_variance: float | None = None,
    value: float | None = None,
    laplacian: float = 0.0,
    value_laplacian_covariance: float = 0.0,
) -> MseTerms:
    r"""Return the terms of the MSE of a gradient estimate.

    All estimators share :math:`(1 - 2a + b)G`. The noise of finite differences adds

    ================  ==================================  =========================================
    samples           forward                             antithetic
    ================  ==================================  =========================================
    ``paired``        :math:`\frac{s}{LN} tr V`           the same
    ``shared``        :math:`\frac{b}{N} tr V`            the same
    ``independent``   :math:`\frac{s}{LN} T +             :math:`\frac{s}{2LN} T +
                      \frac{2 d a\sigma_f^2}{LNc^2}`      \frac{d a\sigma_f^2}{2LNc^2}`
    ================  ==================================  =========================================

    with :math:`T = \tfrac12\Delta_\theta\sigma_f^2 = tr V + \mathrm{Cov}_\xi(f, \Delta f)`. The
    one-point estimator :math:`\frac1{cLN}\sum (f(\theta + c\epsilon_l, \xi) - \beta)\epsilon_l`,
    with :math:`\varphi = F(\theta) - \beta`, adds

    .. math:: \frac{d a\varphi^2}{Lc^2} + \frac sL\varphi\,\Delta F

    and the noise :math:`\frac{s}{LN} T + \frac{d a\sigma_f^2}{LNc^2}` (paired and independent
    samples are the same here) or, for shared samples,
    :math:`\frac bN tr V + \frac s{LN}\mathrm{Cov}(f,\Delta f) + \frac{d a\sigma_f^2}{LNc^2}`.

    Args:
        moments: The directions, from `gensmooth.theory.families`.
        gradient_norm2: :math:`\|\nabla F(\theta)\|^2`.
        noise_trace: :math:`tr\,\mathrm{Var}_\xi[\nabla_\theta f(\theta, \xi)]`.
        num_samples: N.
        samples: Which evaluations share samples.
        estimator: ``"forward"`` (eq. `fdempirical`), ``"antithetic"`` (eq. `atempirical`) or
            ``"one-point"`` (eq. `gsestimator`).
        spacing: c; required if the values do not cancel (independent samples or one-point).
        value_variance: :math:`\mathrm{Var}_\xi[f(\theta,\xi)]`; required in the same cases.
        value: :math:`F(\theta) - \beta`, the value minus the baseline; required for one-point.
        laplacian: :math:`\Delta F(\theta)`, the trace of the Hessian; one-point only.
        value_laplacian_covariance: :math:`\mathrm{Cov}_\xi(f, \Delta_\theta f)`, zero if the
            noise is linear in θ; independent samples or one-point only.

    Raises:
        ValueError: If a number is out of range, or a required one is missing.

    Example:
        >>> from gensmooth.theory import iid
        >>> terms = mse_terms(iid(100, 20), gradient_norm2=1.0, noise_trace=2.0, num_samples=5)
        >>> round(terms.direction_error, 6), round(terms.gradient_noise, 6)
        (5.05, 2.04)
    """
    G = checks.nonnegative("gradient_norm2", gradient_norm2)
    V = checks.nonnegative("noise_trace", noise_trace)
    N = checks.count("num_samples", num_samples)
    checks.one_of("samples", samples, ("paired", "shared", "independent"))
    check_estimator(estimator, ("forward", "antithetic", "one-point"))
    delta_f = checks.finite("laplacian", laplacian)
    # T = ½ Δ Var f, the growth of the value's variance around θ
    covariance = checks.finite("value_laplacian_covariance", value_laplacian_covariance)
    T = V + covariance
    a, b, s, d, L = moments

    gradient_noise = curvature = value_noise = offset = 0.0
    if estimator == "one-point":
        c, variance = _values(spacing, value_variance, "the one-point estimator")
        phi = checks.moderate("value", checks.required("value", value, _NEEDS_VALUE))
        offset = phi**2 * moments.average_norm2 / c**2
        curvature = phi * delta_f * s / L
        gradient_noise = ((b if samples == "shared" else s / L) * V + s / L * covariance) / N
        value_noise = variance * moments.average_norm2 / (N * c**2)
    elif samples == "independent":
        c, variance = _values(spacing, value_variance, 'samples="independent"')
        # The antithetic estimator divides by 2c instead of c: a quarter of the values' variance.
        # It averages the gradient noise of two points; the forward difference has that of one.
        per_direction = 2.0 if estimator == "forward" else 0.5
        points = 1.0 if estimator == "forward" else 0.5
        gradient_noise = points * s * T / (L * N)
        value_noise = per_direction * d * a * variance / (L * N * c**2)
    else:
        gradient_noise = (s / L if samples == "paired" else b) * V / N
    return MseTerms(G, a * G, b * G, gradient_noise, curvature, value_noise, offset)


def mse(
    moments: Moments,
    *,
    gradient_norm2: float,
    noise_trace: float = 0.0,
    num_samples: int = 1,
    samples: SampleMode = "paired",
    estimator: EstimatorName = "forward",
    spacing: float | None = None,
    value_variance: float | None = None,
    value: float | None = None,
    laplacian: float = 0.0,
    value_laplacian_covariance: float = 0.0,
) -> float:
    r"""Return the MSE :math:`E\|\hat g - \nabla F\|^2`; arguments as in `mse_terms`.

    Example:
        The paper's formula for GS, :math:`\frac{d+1}L G + \frac{d+2}{LN} tr V`, and the increase
        due to shared samples, :math:`\frac{L-1}{LN} tr V`:

        >>> from gensmooth.theory import iid
        >>> paired = mse(iid(100, 20), gradient_norm2=1.0, noise_trace=2.0, num_samples=5)
        >>> shared = mse(
        ...     iid(100, 20), gradient_norm2=1.0, noise_trace=2.0, num_samples=5, samples="shared"
        ... )
        >>> round(paired, 6), round(shared - paired, 6)
        (7.09, 0.38)
    """
    return mse_terms(
        moments,
        gradient_norm2=gradient_norm2,
        noise_trace=noise_trace,
        num_samples=num_samples,
        samples=samples,
        estimator=estimator,
        spacing=spacing,
        value_variance=value_variance,
        value=value,
        laplacian=laplacian,
        value_laplacian_covariance=value_laplacian_covariance,
    ).total


def check_estimator(name: object, known: Sequence[str]) -> None:
    """Raise an error unless a formula covers this estimator; explain why none covers ranks."""
    if isinstance(name, str) and name == "ranked":
        raise ValueError(
            "`estimator` must not be 'ranked', whose error has no closed form: the weight of a "
            "direction depends on the order of all values in its step, and the length of the "
            "estimate does not depend on the gradient's."
        )
    checks.one_of("estimator", name, known)


_NEEDS_VALUE = "the one-point estimator multiplies every direction by F(θ) − baseline"


def _values(spacing: float | None, value_variance: float | None, case: str) -> tuple[float, float]:
    """Return the spacing and the value variance, required if the values do not cancel."""
    why = f"with {case} the noise of the values is divided by the spacing"
    c = checks.positive("spacing", checks.required("spacing", spacing, why))
    checks.moderate("spacing", c, 1e-75)
    variance = checks.required("value_variance", value_variance, why)
    return c, checks.nonnegative("value_variance", variance)
