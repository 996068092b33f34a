"""The paper's timing of the directions."""
