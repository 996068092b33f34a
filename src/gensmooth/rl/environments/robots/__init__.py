"""The robots that have a compiled simulator: one file per robot.

A robot's file registers what it has (:func:`gensmooth.rl.environments.catalogue.register`) when it
is imported: that of ``HalfCheetah-v4``, which is ``half_cheetah.py``, when this name is asked for,
all of them when a name is none of a file. To add a robot, add a file.
``hopper.py`` is the shortest to copy. A robot in a module of your own is made by the name
``module:Name`` if that module registers it under this name.
"""
