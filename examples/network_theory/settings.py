"""How much is measured: everything that decides what a run of the example computes."""

from dataclasses import dataclass

from examples.network_theory.tasks import TASKS, Task


@dataclass(frozen=True)
class Settings:
    """Sizes; the defaults made the results of docs/network.md.

    Attributes:
        examples: M, over which the loss of the error measurements is the mean.
        num_directions: L of the estimates of all parameters.
        matrix_directions: L of the estimates of one matrix.
        spacing: At which the Lemma's limit is measured, in float64.
        repetitions: Estimates per family, all parameters.
        matrix_repetitions: Estimates per family, one matrix.
        spacings: Others that are tried, in float64.
        single_spacings: And in float32.
        spacing_repetitions: Estimates for each of them.
        noise_repetitions: Estimates from minibatches.
        batch: N, examples that a noisy estimate sees.
        probes: Products from which the Hessian's squares are estimated, and points from which the
            rounding of float32 is.
        budget: Forward passes of a fine-tuning.
        tuning_batch: Examples of one forward pass of it.
        multiples: Learning rates that are tried, as multiples of L/(L + d + k − 2).
        backprop_rates: Learning rates that are tried for backpropagation.
        tuning_seeds: On which a learning rate is chosen.
        seeds: On which it is reported.
        held_out: Further examples, on which a run's loss is recorded.
        records: Points of a reported curve.
        steps: Of the first training, instead of the task's own.
    """

    examples: int = 8
    num_directions: int = 32
    matrix_directions: int = 60
    spacing: float = 1e-6
    repetitions: int = 64
    matrix_repetitions: int = 32
    spacings: tuple[float, ...] = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
    single_spacings: tuple[float, ...] = (1e-7, 1e-6, 1e-5, 1e-3)
    spacing_repetitions: int = 12
    noise_repetitions: int = 100
    batch: int = 4
    probes: int = 120
    budget: int = 1200
    tuning_batch: int = 32
    multiples: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 30.0)
    backprop_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    tuning_seeds: tuple[int, ...] = (100,)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    held_out: int = 1000
    records: int = 10
    steps: int | None = None

    def tasks(self) -> list[Task]:
        """The tasks, with a shorter training where one is asked for."""
        found = list(TASKS.values())
        if self.steps is None:
            return found
        return [task._replace(steps=self.steps, checkpoints=(0, self.steps)) for task in found]


QUICK = Settings(
    examples=4,
    num_directions=4,
    matrix_directions=4,
    repetitions=2,
    matrix_repetitions=2,
    spacings=(1e-3, 1e-1),
    single_spacings=(1e-4,),
    spacing_repetitions=2,
    noise_repetitions=2,
    batch=2,
    probes=4,
    budget=40,
    tuning_batch=4,
    multiples=(1.0, 3.0),
    backprop_rates=(1e-3,),
    tuning_seeds=(100,),
    seeds=(0, 1),
    held_out=20,
    records=2,
    steps=4,
)
