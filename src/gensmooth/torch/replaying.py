"""Restoring a trained model from its base weights and the log of its training."""

import os
from itertools import chain
from typing import Any

import torch
from torch import nn

from gensmooth import checks
from gensmooth.models import Law
from gensmooth.torch.log import Log, LogError, check_header
from gensmooth.torch.moving import Mover, describe_parameters, fingerprint
from gensmooth.torch.named import read_parameters


def replay(model: nn.Module, log: Log | str | os.PathLike[str], *, until: int | None = None) -> int:
    """Replay a training run on a model with its base weights, bit for bit.

    Args:
        model: The model, with the weights that the run began with.
        log: The log of the run.
        until: How many of its steps to replay; by default all.

    Returns:
        The number of steps replayed.

    Raises:
        LogError: If the log is invalid or belongs to another model; the model is not changed.
    """
    source = log if isinstance(log, Log) else Log(log)
    header, records = source.read()
    if header is None:
        raise LogError(f"There is no log at {source.path}, or it is empty.")
    parameters = read_parameters(model).parameters
    known = [name for group in header["groups"] for name, *_ in group]
    mine = {name: parameters[name] for name in known if name in parameters}
    ours = dict(header)
    ours["groups"] = [describe_parameters(mine if len(mine) == len(known) else parameters)]
    ours["base"] = fingerprint(mine)
    listed: list[Any] = list(chain(*header["groups"]))
    check_header(header | {"groups": [listed]}, ours, str(source.path))
    if until is not None and checks.count("until", until, 0) > len(records):
        raise ValueError(f"{source.path} has {len(records)} steps, but `until` is {until}.")
    groups = [{name: mine[name] for name, *_ in group} for group in header["groups"]]
    law = Law(*header["law"])
    mover = Mover(groups, seed=header["seed"], law=law, momentum=header["momentum"])
    chosen = records[:until]
    with torch.no_grad():
        for record in chosen:
            for direction, side in header.get("visited", ()):
                mover.shift(record.step, direction, side * header["spacing"])
                mover.shift(record.step, direction, -side * header["spacing"])
            mover.move(record.step, record.weights, record.rates, record.decays)
    return len(chosen)
