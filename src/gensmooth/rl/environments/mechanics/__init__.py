"""The equations of motion of jointed bodies, as expressions.

MuJoCo computes them for any model, step by step through its arrays. Here the model is known when
the code is written, so that everything that does not depend on the state is a number already, and
what is left is a list of operations on positions, velocities and controls: for a planar robot,
whose rotations have one axis, a small part of the general ones. All functions take numbers or
symbols (:mod:`gensmooth.rl.environments.symbols`), so they are checked on numbers, against MuJoCo
itself, and written as C on symbols.

The law is that of MuJoCo's documentation ("Computation"):

    M(q) a + c(q, v) = τ + Jᵀ f,

with the inertia M by composite rigid bodies, the bias c by recursive Newton-Euler (Featherstone,
2008), and soft constraints: f minimises, over accelerations a,

    ½ (a - a₀)ᵀ M (a - a₀) + Σ ½ Dᵢ min(0, Jᵢ a - arefᵢ)²,

where a₀ is the acceleration without constraints. Spatial vectors have their angular part first and
are taken at a point that moves with the robot, the origin of its first body.

- :mod:`.algebra`: numbers, vectors and rotations that leave out what is nothing;
- :mod:`.spatial`: velocities, forces and inertias;
- :mod:`.models`: what is read from a MuJoCo model, and what of it is refused;
- :mod:`.softness`: how limits and contacts give way;
- :mod:`.placed`: a mechanism somewhere: inertia, forces, and what an environment reads;
- :mod:`.contacts`: what touches, where, and what moves it.
"""
