"""The robots that have a compiled simulator: one file per robot.

Every module of this folder is imported before the first environment is made, and registers what it
has (:func:`gensmooth.rl.environments.catalogue.register`): to add a robot, add a file.
``hopper.py`` is the shortest to copy. A robot in a module of your own is made by the name
``module:Name`` if that module registers it under this name.
"""
