"""A custom robot in one file: a cart on a rail that balances a pole.

    gensmooth train own_robot:Cart --max-steps 20 --seed 2 --folder cart
    gensmooth render cart --trust --out cart.gif

The three functions are plain Python. Training compiles them, so that whole episodes run outside
the interpreter; videos call them as they are.
"""

import numpy as np

import gensmooth as gs

MODEL = """
<mujoco>
  <option timestep="0.01"/>
  <worldbody>
    <light pos="0 -2 4"/>
    <geom type="plane" size="5 1 0.1" rgba=".8 .9 .8 1"/>
    <body name="cart" pos="0 0 0.5">
      <joint name="slide" type="slide" axis="1 0 0" range="-2 2" limited="true" damping="0.05"/>
      <geom type="box" size="0.15 0.1 0.06" mass="1" contype="0" conaffinity="0"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0" damping="0.005"/>
        <geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.03" mass="0.2"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="slide" gear="20" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""


def observation(robot):
    """The cart's position, the pole's angle, and their velocities."""
    return np.concatenate((robot.qpos, robot.qvel))


def reward(robot, action):
    """One per step, and less if the cart is far from the middle."""
    return 1.0 - 0.1 * robot.qpos[0] ** 2


def terminated(robot):
    """Whether the pole has fallen, or the cart is at the end of the rail."""
    return abs(robot.qpos[1]) > 0.4 or abs(robot.qpos[0]) > 1.9


gs.rl.register_robot(
    "Cart",
    MODEL,
    observation=observation,
    reward=reward,
    terminated=terminated,
    frame_skip=2,
    horizon=300,
)
