"""The engine of all experiments: specs of runs, their store, workers, statistics and verdicts."""
