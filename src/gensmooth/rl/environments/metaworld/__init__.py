"""Meta-World's ML1 tasks, compiled: one file per task.

``sawyer.py`` has the arm, ``ml1_reach.py`` and ``ml1_push.py`` have the tasks. MuJoCo computes the
physics, because :mod:`gensmooth.physics` does not support the weld that moves the arm. The same
tasks as ordinary Gymnasium environments are in :mod:`gensmooth.rl.environments.reference`.
"""
