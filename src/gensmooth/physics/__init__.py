"""The physics of robots, with one generated function per model.

A MuJoCo model and the Python functions of an environment become C that computes a whole step of
many simulations in parallel. It is float64 and equals MuJoCo's step up to rounding.
``docs/physics.md`` explains how this works, maps the files, and shows how to find a bug.

The package imports only the foundations of gensmooth, and nothing from searches or policies.
"""
