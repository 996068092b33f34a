"""The paper's reinforcement learning."""
