"""A small problem that everybody understands: tuning the controller of a drone."""
