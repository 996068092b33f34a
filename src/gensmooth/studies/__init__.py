"""Studies: the paper's evaluation as deterministic lists of runs, and what they say."""
