"""The physics of a robot as one function in C: a whole step of one world, nothing left to launch.

A GPU computes a step of MuJoCo Warp as a chain of some hundred small kernels, each of which waits
for the one before. For a robot of some ten joints that chain, not arithmetic, takes the time. Here
one thread computes a whole step of one world, from the expressions of
:mod:`gensmooth.rl.environments.mechanics`, in float64. Worlds know nothing of each other, so a step
has the same bits in whatever company, from run to run.

The constrained accelerations are found by Newton's method on the cost that
:mod:`.mechanics` states,
with an exact search along each direction. Between changes of the set of active constraints the cost
is quadratic, so the step after which the set stays as it was is the last, and exact.

- :mod:`.source`: the whole step, put together;
- :mod:`.system`: what all parts of it share, and linear algebra;
- :mod:`.constraints`: limits and contacts, as rows of J with their stiffness and residual;
- :mod:`.solver`: Newton's method;
- :mod:`.integrators`: Euler and Runge-Kutta;
- :mod:`.outputs`: what the environment reads.
"""
