"""The pilot: the default search, which finds scale, spacing, step and population by itself.

How it works, and why: docs/pilot.md.
"""

from gensmooth.pilot.pilot import AUTO, Asked, Control, Phase, Pilot

__all__ = ["AUTO", "Asked", "Control", "Phase", "Pilot"]
