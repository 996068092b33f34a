"""The ``gensmooth`` command. Each subcommand has its own file and imports what it needs late."""

from gensmooth.cli.main import main

__all__ = ["main"]
