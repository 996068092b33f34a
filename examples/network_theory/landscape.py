r"""What follows from a gradient and a Hessian that are known: how wide to look, how far to go."""

import math
from collections.abc import Mapping

from gensmooth import theory


def hessian_squares(facts: Mapping[str, float]) -> dict[str, float]:
    """The sums of squares that the formulas of gensmooth.theory ask for.

    From estimates: their errors may not leave anything that no matrix has, and the square of the
    trace's own error is taken from the square of the trace.

    Args:
        facts: ``dim``, ``trace``, ``trace_error``, ``frobenius2`` and ``diagonal2``.
    """
    trace2 = max(facts["trace"] ** 2 - facts["trace_error"] ** 2, 0.0)
    diagonal2 = max(facts["diagonal2"], trace2 / facts["dim"])
    frobenius2 = max(facts["frobenius2"], diagonal2)
    return {"trace2": trace2, "frobenius2": frobenius2, "diagonal2": diagonal2}


def widest_spacing(facts: Mapping[str, float], num_directions: int) -> float:
    """The spacing at which the quadratic term of coins equals the Lemma's error: it doubles."""
    d, L = int(facts["dim"]), num_directions
    squares = hessian_squares(facts)
    term = theory.quadratic_spacing_mse(d, L, spacing=1.0, **squares, kurtosis=1.0, sixth=1.0)
    lemma = theory.relative_mse(theory.iid(d, L, kurtosis=1.0)) * facts["gradient_norm2"]
    return math.sqrt(lemma / term)


def greedy_rate(facts: Mapping[str, float], num_directions: int, batch: int) -> float | None:
    r"""The learning rate that lowers the local quadratic most in one step, for normal directions.

    A batch of N examples has the gradient :math:`u = g + \nu`, :math:`E\nu\nu^T = V/N`. The
    estimate :math:`\hat g = A u` has
    :math:`E[\hat g^T H\hat g] = \frac1L E\|u\|^2\,tr H + \frac{L + 1}L E[u^T H u]`, so

    .. math:: \eta^* = \frac{\|g\|^2}{E[\hat g^T H\hat g]}
              = \frac{L\|g\|^2}{(\|g\|^2 + tr V/N)\,tr H + (L + 1)(g^T H g + tr(HV)/N)} .

    For few directions that is proportional to L, whatever the curvature along the gradient.

    Args:
        facts: ``gradient_norm2``, ``noise_trace`` (tr V), ``trace`` (tr H), ``along`` (gᵀHg) and
            ``noise_along`` (tr(HV)).
        num_directions: L.
        batch: N.

    Returns:
        η*, or None where the quadratic bends downwards and has no least value.
    """
    G, L, N = facts["gradient_norm2"], num_directions, batch
    across = (G + facts["noise_trace"] / N) * facts["trace"]
    curved = across + (L + 1) * (facts["along"] + facts["noise_along"] / N)
    return L * G / curved if curved > 0 else None
