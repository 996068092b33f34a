"""The physics of a robot as one function in C: a whole step of one world.

On a GPU, MuJoCo Warp computes a step as a chain of about a hundred small kernels, each of which
waits for the one before. For a robot with about ten joints, launching this chain takes most of the
time. Here one thread computes a whole step of one world in float64, from the expressions of
:mod:`gensmooth.physics.mechanics`. Worlds are independent, so a step has the same bits in every
run, whatever else runs at the same time.

Newton's method finds the constrained accelerations: it minimises the cost in
:mod:`gensmooth.physics.mechanics`, with an exact line search along each direction. While the set of
active constraints stays the same, the cost is quadratic. So a full step that leaves the set
unchanged is exact, and it is the last one.

- :mod:`.source`: assembles the whole step;
- :mod:`.system`: the symbols and the writer that all parts of a step share, and linear algebra;
- :mod:`.constraints`: limits and contacts, as rows of J with their stiffness and residual;
- :mod:`.solver`: Newton's method;
- :mod:`.integrators`: Euler and Runge-Kutta;
- :mod:`.outputs`: the entries of MuJoCo's data that the environment reads;
- :mod:`.lanes`: the same C for one world per thread, or for several in vector registers.
"""
