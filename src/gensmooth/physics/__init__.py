"""The physics of robots, without MuJoCo's general machinery: one function per model.

A MuJoCo model and the Python functions of an environment become C that computes a whole step of
many simulations side by side, in float64, equal to MuJoCo's step up to rounding.
``docs/physics.md`` explains how, maps the files, and shows how to find a difference.

The package imports only the foundations of gensmooth, and nothing from searches or policies.
"""
