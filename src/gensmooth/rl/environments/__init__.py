"""Environments: simulators that run batches of whole trajectories.

:func:`gensmooth.rl.environments.catalogue.make` turns a name into a simulator; what a simulator is
stands in :mod:`gensmooth.rl.environments.base`.
"""
