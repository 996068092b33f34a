"""Meta-World's ML1 tasks, compiled: one file per task.

``sawyer.py`` has the arm, ``ml1_reach.py`` and ``ml1_push.py`` the tasks. MuJoCo computes the
physics: a weld moves the arm, which :mod:`gensmooth.physics` does not cover. The same tasks as
ordinary Gymnasium environments are in :mod:`gensmooth.rl.environments.reference`.
"""
