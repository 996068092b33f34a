"""The robots that have a compiled simulator: one file per robot.

A robot's file registers it (:mod:`gensmooth.physics.registry`) when it is imported. To add a robot,
add a file; ``hopper.py`` is a short one to copy. A robot in your own module is found by the name
``module:Name`` if that module registers it under this name.
"""
