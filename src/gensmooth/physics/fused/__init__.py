"""The physics of a robot as one function in C: a whole step of one world.

On a GPU, MuJoCo Warp computes a step as a chain of about a hundred small kernels, each of which
waits for the one before. For a robot with about ten joints this chain takes the time, not the
arithmetic. Here one thread computes a whole step of one world, from the expressions of
:mod:`gensmooth.physics.mechanics`, in float64. Worlds are independent, so a step has the same bits
whatever runs beside it, and in every run.

Newton's method finds the constrained accelerations, on the cost that
:mod:`gensmooth.physics.mechanics` states, with an exact search along each direction. While the set
of active constraints stays the same, the cost is quadratic; so a full step that leaves the set
unchanged is the last one, and is exact.

- :mod:`.source`: the whole step, put together;
- :mod:`.system`: what the parts of a step share, and linear algebra;
- :mod:`.constraints`: limits and contacts, as rows of J with their stiffness and residual;
- :mod:`.solver`: Newton's method;
- :mod:`.integrators`: Euler and Runge-Kutta;
- :mod:`.outputs`: what the environment reads;
- :mod:`.lanes`: one text for one world per thread, or for several in vector registers.
"""
