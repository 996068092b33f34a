"""Environments: simulators that run batches of whole trajectories.

:func:`gensmooth.rl.environments.catalogue.make` turns a name into a simulator;
:class:`gensmooth.rl.environments.base.Simulator` says what a simulator is;
:mod:`gensmooth.rl.environments.robots` has the compiled ones, one file per robot.
"""
