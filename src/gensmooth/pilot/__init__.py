"""The pilot: the default search, which finds scale, spacing, step and population by itself.

How it works, and why: docs/pilot.md.
"""

from gensmooth.pilot.pilot import Asked, Control, Phase, Pilot

__all__ = ["Asked", "Control", "Phase", "Pilot"]
