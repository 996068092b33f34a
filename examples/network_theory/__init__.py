"""The theory on two real networks: errors of gradient estimates, and fine-tuning from values.

python -m examples.network_theory
"""
