"""
A robot that learns to balance
==============================

The robot is a cart with two poles, one on top of the other. The policy is linear: nine numbers, all
zero at first. There is no gradient and nothing to tune. This takes seconds;
``gensmooth train Hopper-v5 --folder hopper`` trains a hopping leg in minutes (see :doc:`/rl`).
"""

import matplotlib.pyplot as plt

import gensmooth as gs

result = gs.rl.train(
    "InvertedDoublePendulum-v5",
    max_steps=40,
    test_every=2,
    test_episodes=10,
    target=9000,  # 9360 is the maximum, if it never falls
    seed=0,
)
for test in result.tests:
    print(
        f"after {test.step:2} iterations, {test.env_steps:6} steps of simulation: "
        f"up for {test.mean_length:4.0f} steps, a return of {test.mean_return:5.0f}"
    )

# %%
# The return of ten test episodes, and the policy itself: how hard the cart is pushed for each thing
# that it observes.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.plot([test.step for test in result.tests], [test.mean_return for test in result.tests], "o-")
left.set(xlabel="iterations", ylabel="return", ylim=(0, None))
names = ["position", "sin θ₁", "sin θ₂", "cos θ₁", "cos θ₂", "speed", "dθ₁", "dθ₂", "contact"]
right.barh(names, result.policy.parameters)
right.invert_yaxis()
right.set(xlabel="weight")
plt.show()
