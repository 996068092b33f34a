r"""The moments of each family of directions, in closed form.

All families but `iid` are normalised so that directions have length √d, where the family allows it;
use `Moments.scaled` for another scale. Guided directions are missing because their covariance
depends on past estimates, so that their error depends on the direction of the gradient.

The proofs are in `docs/theory.md`.
"""

from collections.abc import Callable

from gensmooth import checks
from gensmooth.theory.moments import Moments, combine


def iid(dim: int, num_directions: int, *, variance: float = 1.0, kurtosis: float = 3.0) -> Moments:
    r"""Directions with i.i.d. entries of mean zero (Assumption `assume:perturb`).

    With variance :math:`v` and kurtosis :math:`k` (the plain fourth standardised moment, 3 for a
    Gaussian), Lemmas `lem:tracequartic` and `thm:fdempmse` give

    .. math:: a = v, \quad s = v^2(d + k - 1), \quad b = v^2\Bigl(1 + \frac{d + k - 2}{L}\Bigr).

    The distribution need not be symmetric.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`.
        variance: :math:`v > 0`.
        kurtosis: :math:`k \ge 1`.

    Example:
        >>> iid(100, 20)
        Moments(mean=1.0, second=6.05, fourth=102.0, dim=100, num_directions=20)
    """
    d, L = _size(dim, num_directions)
    v, k = checks.positive("variance", variance), checks.kurtosis(kurtosis)
    checks.moderate("variance", v)
    return Moments(1.0, 1.0 + (d + k - 2.0) / L, d + k - 1.0, d, L).scaled(v)


def sphere(dim: int, num_directions: int) -> Moments:
    r"""Independent directions uniform on the sphere of radius √d (Polyak; Flaxman et al.).

    .. math:: a = 1, \quad s = d, \quad b = 1 + \frac{d - 1}{L},

    the same moments as those of fair Bernoulli entries ±1.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`.

    Example:
        >>> sphere(100, 20) == iid(100, 20, kurtosis=1.0)
        True
    """
    return iid(dim, num_directions, kurtosis=1.0)


def orthogonal(dim: int, num_directions: int) -> Moments:
    r"""Exactly orthogonal directions of length √d, uniformly rotated.

    Up to d directions are orthogonal and :math:`A^2 = (d/L)A`, so :math:`a = 1`, :math:`s = d`,
    :math:`b = d/L`. Further directions form independent groups of d, the last one partial; see
    `combine`.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`, also above d.

    Example:
        >>> orthogonal(128, 64).second
        2.0
        >>> orthogonal(128, 256).second
        1.0
    """
    d, L = _size(dim, num_directions)
    return _grouped(L, d, lambda n: Moments(1.0, d / n, float(d), d, n))


def gram_schmidt(dim: int, num_directions: int) -> Moments:
    r"""Gram–Schmidt rows of standard Gaussians, not renormalised: the paper's Orthogonal ES.

    Row k of a group keeps the length :math:`r_k` of its residual,
    :math:`r_k^2 \sim \chi^2_{m}` with :math:`m = d - k + 1`, independent of its uniform direction,
    so :math:`E r_k^2 = m`, :math:`E r_k^4 = m(m + 2)` and, for one group of n rows,

    .. math:: a = \frac1n\sum_k \frac{E r_k^2}{d} = 1 - \frac{n-1}{2d}, \quad
              s = \frac1n \sum_k \frac{E r_k^4}{d}, \quad b = \frac{s}{n} .

    The estimate is therefore biased towards zero. More than d directions form independent groups of
    d, the last one partial.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`, also above d.

    Example:
        >>> gram_schmidt(4, 3).mean
        0.75
        >>> gram_schmidt(4, 1) == iid(4, 1)
        True
    """
    d, L = _size(dim, num_directions)

    def group(n: int) -> Moments:
        # Σ m and Σ m² over m = d−n+1, …, d
        first = _triangular(d) - _triangular(d - n)
        squares = _pyramidal(d) - _pyramidal(d - n)
        fourth = (squares + 2 * first) / (n * d)
        return Moments(first / (n * d), fourth / n, fourth, d, n)

    return _grouped(L, d, group)


def hadamard(dim: int, num_directions: int) -> Moments:
    r"""Distinct rows of a Sylvester–Hadamard matrix, truncated to d columns, times random signs.

    The matrix has order :math:`D = 2^{\lceil\log_2 d\rceil}`. The rows are drawn uniformly
    without replacement, their first d columns are kept, and each column and each row is multiplied
    by one random sign. Entries are ±1. One group of n rows has :math:`a = 1`, :math:`s = d`,

    .. math:: b = 1 + \frac{(d - 1)(D - n)}{n(D - 1)} .

    For :math:`d = D` the rows are exactly orthogonal and these are the moments of `orthogonal`.
    More than D directions form groups of D with new rows and signs, the last one partial.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`, also above D.

    Example:
        >>> round(hadamard(102, 20).second - 1.0, 2), orthogonal(102, 20).second - 1.0
        (4.29, 4.1)
        >>> hadamard(64, 16) == orthogonal(64, 16)
        True
    """
    d, L = _size(dim, num_directions)
    D = 1 << (d - 1).bit_length()

    def group(n: int) -> Moments:
        if D == 1:
            return Moments(1.0, 1.0, 1.0, d, n)
        second = 1.0 + (d - 1) * (D - n) / (n * (D - 1))
        return Moments(1.0, second, float(d), d, n)

    return _grouped(L, D, group)


def sparse(dim: int, num_directions: int, *, size: int, kurtosis: float = 1.0) -> Moments:
    r"""Independent entries on a random subset of coordinates, drawn anew for each direction.

    k of d coordinates, drawn without replacement, have entries :math:`\sqrt{d/k}\,z` with
    :math:`E z^2 = 1` and :math:`E z^4 = \kappa`; the others are zero. Then :math:`a = 1`,

    .. math:: s = \frac dk (k + \kappa - 1), \quad b = 1 + \frac{s - 1}{L} .

    For coins (κ = 1), s = d, as if all coordinates were perturbed: sparsity costs nothing.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`.
        size: :math:`1 \le k \le d`.
        kurtosis: :math:`\kappa \ge 1`.

    Example:
        >>> sparse(100, 20, size=5) == iid(100, 20, kurtosis=1.0)
        True
        >>> sparse(100, 20, size=5, kurtosis=3.0).fourth  # 100 / 5 · (5 + 2)
        140.0
    """
    d, L, fourth = _subset(dim, num_directions, size, kurtosis)
    return Moments(1.0, 1.0 + (fourth - 1.0) / L, fourth, d, L)


def block_coordinate(dim: int, num_directions: int, *, size: int, kurtosis: float = 1.0) -> Moments:
    r"""Like `sparse`, but all L directions of a step perturb the same k coordinates.

    .. math:: a = 1, \quad s = \frac dk (k + \kappa - 1), \quad
              b = \frac dk\Bigl(1 + \frac{k + \kappa - 2}{L}\Bigr) .

    More directions cannot bring b below :math:`d/k`, because the step ignores the other
    coordinates.

    Args:
        dim: :math:`d \ge 1`.
        num_directions: :math:`L \ge 1`.
        size: :math:`1 \le k \le d`.
        kurtosis: :math:`\kappa \ge 1`.

    Example:
        >>> block_coordinate(100, 20, size=5).second  # 20 · (1 + 4/20)
        24.0
        >>> block_coordinate(100, 20, size=100, kurtosis=3.0) == iid(100, 20)
        True
    """
    d, L, fourth = _subset(dim, num_directions, size, kurtosis)
    return Moments(1.0, d / size * (1.0 + (size + kurtosis - 2.0) / L), fourth, d, L)


def low_rank(
    rows: int, columns: int, num_directions: int, *, rank: int = 1, kurtosis: float = 3.0
) -> Moments:
    r"""Matrices :math:`A B^T/\sqrt r` where A (m × r) and B (n × r) have i.i.d. entries: EGGROLL.

    With :math:`d = mn` and κ the kurtosis of an entry of A and B, :math:`a = 1`,

    .. math:: s = \frac1r\bigl[(m + \kappa - 1)(n + \kappa - 1) + (r - 1)(mn + 2)\bigr], \quad
              b = 1 + \frac{s - 1}{L} .

    For normals, s = d + 2 + 2(m + n + 1)/r, which decreases with the rank to d + 2, the value for
    independent normals. For coins, s = d + 2(1 − 1/r), which is smallest at rank one.

    Args:
        rows: :math:`m \ge 1`.
        columns: :math:`n \ge 1`.
        num_directions: :math:`L \ge 1`.
        rank: :math:`r \ge 1`.
        kurtosis: :math:`\kappa \ge 1`.

    Example:
        >>> low_rank(30, 20, 8).fourth  # (30 + 2)(20 + 2)
        704.0
        >>> low_rank(30, 20, 8, kurtosis=1.0) == iid(600, 8, kurtosis=1.0)
        True
    """
    m, n = checks.count("rows", rows), checks.count("columns", columns)
    r, k = checks.count("rank", rank), checks.kurtosis(kurtosis)
    d, L = _size(m * n, num_directions)
    fourth = ((m + k - 1.0) * (n + k - 1.0) + (r - 1.0) * (d + 2.0)) / r
    return Moments(1.0, 1.0 + (fourth - 1.0) / L, fourth, d, L)


def _subset(dim: int, num_directions: int, size: int, kurtosis: float) -> tuple[int, int, float]:
    """Return d, L and s for entries on k of d coordinates."""
    d, L = _size(dim, num_directions)
    if checks.count("size", size) > d:
        raise ValueError(f"`size` must be at most `dim`, {d}, but is {size}.")
    return d, L, d / size * (size + checks.kurtosis(kurtosis) - 1.0)


def _size(dim: int, num_directions: int) -> tuple[int, int]:
    return checks.count("dim", dim), checks.count("num_directions", num_directions)


def _grouped(num_directions: int, size: int, group: Callable[[int], Moments]) -> Moments:
    """Combine independent groups of `size` directions; the last one may be smaller."""
    full, rest = divmod(num_directions, size)
    if full + (rest > 0) == 1:
        return group(rest or size)
    return combine([group(size)] * full + ([group(rest)] if rest else []))


def _triangular(n: int) -> int:
    return n * (n + 1) // 2


def _pyramidal(n: int) -> int:
    return n * (n + 1) * (2 * n + 1) // 6
