"""The paper's linear regression."""
