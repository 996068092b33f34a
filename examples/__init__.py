"""Programs to read and to change."""
