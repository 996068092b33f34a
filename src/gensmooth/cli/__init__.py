"""The ``gensmooth`` command. Each sub-command lives in its file and imports what it needs late."""

from gensmooth.cli.main import main

__all__ = ["main"]
