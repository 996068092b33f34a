"""The engine of ``compare`` and ``sweep``: a table of trials (cells × seeds) on one problem.

A cell is a method with its options. All cells are run on the same seeds, and the point that each
run recommends is judged in the same way.
"""
