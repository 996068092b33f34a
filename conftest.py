"""Which files pytest looks for examples in: those of an extra only where it is installed."""

import os
from importlib.util import find_spec

# Some virtual machines announce AMX, a processor's units for matrices, and do not have it: there
# torch's first product in bfloat16 ends the process.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

collect_ignore_glob = [] if find_spec("torch") else ["src/gensmooth/torch/*"]
if not find_spec("warp"):
    collect_ignore_glob += ["src/gensmooth/rl/environments/warp_kernels.py"]
if not find_spec("triton"):
    collect_ignore_glob += ["src/gensmooth/torch/gpu*.py"]
