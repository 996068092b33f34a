"""The pilot, untuned, against the best of the paper's grids."""
