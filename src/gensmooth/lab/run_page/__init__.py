"""The page of a run: what its folder records, the figure, and the command that repeats it."""
