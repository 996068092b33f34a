"""The robots that have a compiled simulator: one file per robot.

A robot's file registers it (:mod:`gensmooth.physics.registry`) when it is imported. To add a robot,
add a file; ``docs/contributing/environment.md`` has a complete example. A robot in your own module
has the name ``module:Name``.
"""
