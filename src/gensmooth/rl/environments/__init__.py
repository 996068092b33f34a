"""Environments: simulators that run batches of whole trajectories.

- :func:`gensmooth.rl.environments.catalogue.make` turns a name into a simulator.
- :class:`gensmooth.rl.environments.base.Simulator` is the interface of a simulator.
- :mod:`gensmooth.physics.robots` has the robots, one file each.
- :mod:`gensmooth.rl.environments.metaworld` has Meta-World's tasks.
"""
