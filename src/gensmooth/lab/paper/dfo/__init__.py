"""The paper's noisy benchmark of derivative-free optimisation."""
