"""The pilot: the default search, which finds scale, spacing, step and population by itself.

How it works, and why: docs/pilot.md.
"""

from gensmooth.pilot.pilot import AUTO, Asked, Control, Phase, Pilot
from gensmooth.pilot.units import find_units

__all__ = ["AUTO", "Asked", "Control", "Phase", "Pilot", "find_units"]
