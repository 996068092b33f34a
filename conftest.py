"""Which files pytest looks for examples in: those of an extra only where it is installed."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/gensmooth/torch/*"]
if not find_spec("warp"):
    collect_ignore_glob += ["src/gensmooth/rl/environments/warp_kernels.py"]
if not find_spec("triton"):
    collect_ignore_glob += ["src/gensmooth/torch/gpu*.py"]
