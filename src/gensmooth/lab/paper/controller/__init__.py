"""An example that is not in the paper: tuning the controller of a drone."""
