"""The compiled kernels: importing this package imports Numba, so nothing does before first use."""
