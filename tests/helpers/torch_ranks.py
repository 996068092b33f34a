"""One rank of distributed runs, started by the tests: ``python torch_ranks.py JSON``.

It executes some runs, one after the other, and prints how each ended.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

import gensmooth as gs
from torch_cases import decoder, loss_of


def wrap(model: torch.nn.Module, how: str | None) -> torch.nn.Module:
    """The model, distributed over the ranks as a trainer would."""
    if how is None:
        return model
    if how == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model)
    if how == "compiled ddp":
        return torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend="eager")
    if how == "part":
        model.block = torch.nn.parallel.DistributedDataParallel(model.block)
        return model
    mesh = distributed.device_mesh.init_device_mesh("cpu", (distributed.get_world_size(),))
    if how == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        return fully_shard(model, mesh=mesh)
    if how == "fsdp":
        from torch.distributed.fsdp import FullyShardedDataParallel

        cpu = torch.device("cpu")
        return FullyShardedDataParallel(
            model, device_mesh=mesh, use_orig_params=True, device_id=cpu
        )
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    return parallelize_module(model, mesh, {"block.0": ColwiseParallel()})


def run(options: dict, rank: int, folder: Path) -> str:
    """One run: the bits of the trained model, or the error."""
    model = decoder(torch.bfloat16, seed=options.get("weights", {}).get(str(rank), 0))
    plain = model
    log = gs.torch.Log(folder / options["log"]) if options.get("log") else None
    try:
        model = wrap(model, options.get("wrap"))
        opt = gs.torch.ZerothOrder(
            model.named_parameters() if options.get("named") else model,
            lr=0.02,
            spacing=0.01,
            num_directions=5,
            seed=options.get("seeds", {}).get(str(rank), 0),
            ranks=None if options.get("split") == "none" else options.get("split", "directions"),
            log=log,
        )
        for step in range(opt.steps_done, 3):
            if options.get("lost") == [rank, step]:
                os.kill(os.getpid(), 9)
            closure = loss_of(model)
            if options.get("broken") == [rank, step]:
                closure = lambda: 1 / 0  # noqa: E731
            opt.step(closure)
        names = {n.replace("module.", ""): w for n, w in plain.named_parameters()}
        return gs.torch.fingerprint(names)
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("\n", " ")


def main() -> None:
    options = json.loads(sys.argv[1])
    rank, folder = options["rank"], Path(options["folder"])
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/{options['meeting']}",
        rank=rank,
        world_size=options["world"],
        timeout=timedelta(seconds=120),
    )
    for one in options["runs"]:
        print(run(one, rank, folder), flush=True)
    if not any("lost" in one for one in options["runs"]):
        distributed.barrier()  # the rank that holds the store must be the last to leave
    os._exit(0)


if __name__ == "__main__":
    main()
