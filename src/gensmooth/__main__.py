"""``python -m gensmooth``: the same as the ``gensmooth`` command."""

from gensmooth.cli.main import main

if __name__ == "__main__":
    main()
