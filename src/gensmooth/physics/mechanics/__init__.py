"""The equations of motion of jointed bodies, as expressions.

MuJoCo computes them for any model, by loops over its arrays. Here the model is known when the code
is generated, so everything that does not depend on the state is a constant. The rest is a list of
operations on positions, velocities and controls. It is short for a planar robot, whose rotations
have one axis. All functions take numbers or symbols (:mod:`gensmooth.physics.symbols`):
on numbers they are tested against MuJoCo, and on symbols they are written as C.

The equations are those of MuJoCo's documentation ("Computation"):

    M(q) a + c(q, v) = τ + Jᵀ f,

with the inertia M by composite rigid bodies, the bias c by recursive Newton-Euler (Featherstone,
2008), and soft constraints: f minimises, over accelerations a,

    ½ (a - a₀)ᵀ M (a - a₀) + Σ ½ Dᵢ min(0, Jᵢ a - arefᵢ)²,

where a₀ is the acceleration without constraints. Spatial vectors have their angular part first and
refer to a point that moves with the robot, the origin of its first body.

- :mod:`.algebra`: numbers, vectors and rotations, without operations on 0 and 1;
- :mod:`.spatial`: velocities, forces and inertias of rigid bodies;
- :mod:`.models`: reads a MuJoCo model and refuses unsupported features;
- :mod:`.mechanism`: a supported model;
- :mod:`.softness`: how limits and contacts give way;
- :mod:`.placed`: a mechanism in a configuration: inertia, forces, and MuJoCo's derived arrays;
- :mod:`.contacts`: which geoms touch, where, and which velocities move the contact.
"""
