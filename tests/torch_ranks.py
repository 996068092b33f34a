"""One rank of a run over processes, started by the tests: ``python torch_ranks.py JSON``."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed

import gensmooth as gs
from torch_cases import bits, decoder, loss_of


def main() -> None:
    given = json.loads(sys.argv[1])
    rank, world, folder = given["rank"], given["world"], Path(given["folder"])
    torch.set_num_threads(1)
    store = f"file://{folder}/meeting-{given['name']}"
    distributed.init_process_group(
        "gloo", init_method=store, rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    model = decoder(torch.bfloat16, seed=given.get("weights", {}).get(str(rank), 0))
    log = gs.torch.Log(folder / given["log"]) if given.get("log") else None
    try:
        opt = gs.torch.ZerothOrder(
            model,
            lr=0.02,
            spacing=0.01,
            num_directions=5,
            estimator=given.get("estimator", "forward"),
            seed=given.get("seeds", {}).get(str(rank), 0),
            ranks=given.get("split", "directions"),
            log=log,
        )
        for step in range(opt.steps_done, given["steps"]):
            if given.get("lost") == [rank, step]:
                os.kill(os.getpid(), 9)
            closure = loss_of(model)
            if given.get("broken") == [rank, step]:
                closure = lambda: 1 / 0  # noqa: E731
            opt.step(closure)
        print(bits(model), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
    os._exit(0)  # without waiting for ranks that are gone


if __name__ == "__main__":
    main()
