"""Training torch modules without gradients, with little more memory than inference.

>>> import torch
>>> import gensmooth as gs
>>> model = torch.nn.Linear(4, 1)
>>> opt = gs.torch.ZerothOrder(model.named_parameters(), lr=0.1, num_directions=8, seed=0)
>>> loss = opt.step(lambda: model(torch.ones(4)).square().sum())

Needs torch: ``pip install 'gensmooth[torch]'``.
"""

from importlib.util import find_spec

try:
    _installed = find_spec("torch") is not None
except ValueError:  # a module without a spec has taken torch's place in sys.modules
    _installed = False
if not _installed:
    raise ImportError(
        "gensmooth.torch needs torch, which is not installed: pip install 'gensmooth[torch]'"
    )

from gensmooth.models import SparseTiles
from gensmooth.torch.layers import UnusedError
from gensmooth.torch.log import Log, LogError, LogRecord
from gensmooth.torch.moving import fingerprint
from gensmooth.torch.ranks import RanksError
from gensmooth.torch.replaying import replay
from gensmooth.torch.zeroth_order import DivergenceWarning, ZerothOrder

__all__ = [
    "DivergenceWarning",
    "Log",
    "LogError",
    "LogRecord",
    "RanksError",
    "SparseTiles",
    "UnusedError",
    "ZerothOrder",
    "fingerprint",
    "replay",
]
