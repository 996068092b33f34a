"""Benchmarks. Importing this package limits the process, and so all competitors, to one core.

It must be imported before NumPy, JAX and torch, which read these variables on import.
"""

import os

for _name in ("OMP", "OPENBLAS", "MKL", "NUMBA", "VECLIB", "NUMEXPR"):
    os.environ[f"{_name}_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("EVOTORCH_VERBOSE_LEVEL", "0")
CORES: set[int] = set()  # the cores before the limit, for benchmarks that lift it
if hasattr(os, "sched_setaffinity"):
    CORES = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(CORES)})
