"""Rivals on the same episodes: Gymnasium's environments in processes, and envpool.

They compute the policy's matrix product, but no statistics of the observations.
"""

import multiprocessing as mp
import warnings
from typing import Any

import numpy as np

from benchmarks.rl_floor import Work
from gensmooth.rl.environments import catalogue
from gensmooth.rl.environments.gymnasium import make_environment
from gensmooth.streams import Purpose, generator


def _serve(name: str, weights: np.ndarray, queue: Any, pipe: Any) -> None:
    """On each request, run episodes from the shared queue, and answer with their steps."""
    warnings.simplefilter("ignore")
    environment = make_environment(catalogue.reference(name))
    pipe.send(0)
    while (episodes := pipe.recv()) is not None:
        steps = 0
        while True:
            with queue.get_lock():
                episode = queue.value
                queue.value += 1
            if episode >= episodes:
                break
            environment.unwrapped.np_random = generator(episode, Purpose.SAMPLE)
            seen, _ = environment.reset()
            over = False
            while not over:
                seen, _, terminated, truncated, _ = environment.step(weights[episode] @ seen)
                over = terminated or truncated
                steps += 1
        pipe.send(steps)


class Processes:
    """The ordinary environment in two processes that share a queue of episodes."""

    def __init__(self, name: str, work: Work, processes: int, episodes: int) -> None:
        context = mp.get_context("spawn")
        self._queue = context.Value("q", 0)
        self._episodes = episodes
        n, m = work.policy.sizes
        weights = work.parameters.reshape(-1, m, n)
        self._pipes, self._processes = [], []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(name, weights, self._queue, theirs), daemon=True
            )
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def __call__(self) -> int:
        """Run the episodes; returns their steps."""
        self._queue.value = 0
        for pipe in self._pipes:
            pipe.send(self._episodes)
        return sum(pipe.recv() for pipe in self._pipes)

    def close(self) -> None:
        """End the processes."""
        for pipe, process in zip(self._pipes, self._processes, strict=True):
            pipe.send(None)
            process.join()


class EnvPool:
    """Envpool's environments, stepped together on some threads, each with its own policy."""

    def __init__(self, name: str, work: Work, threads: int, steps: int) -> None:
        import envpool

        n, m = work.policy.sizes
        number = len(work.parameters)
        self._pool = envpool.make_gymnasium(
            name, num_envs=number, batch_size=number // 2, num_threads=threads, seed=0
        )
        self._weights = work.parameters.reshape(-1, m, n)
        self._steps = steps
        self._pool.async_reset()

    def __call__(self) -> int:
        """Step at least ``steps`` times; returns the number of steps."""
        steps = 0
        while steps < self._steps:
            seen, _, _, _, info = self._pool.recv()
            who = info["env_id"]
            weights = self._weights[who, :, : seen.shape[1]]  # its Ant has 27 observations
            self._pool.send(np.einsum("bmn,bn->bm", weights, seen), who)
            steps += len(who)
        return steps
