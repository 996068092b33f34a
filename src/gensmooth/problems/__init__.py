"""Problems with known answers: the paper's linear regression and the noisy benchmark.

Each is a module with a ``run`` that follows the paper's protocol for any directions.
"""
