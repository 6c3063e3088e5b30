"""Runs ``packwise`` as ``python -m packwise``."""

from packwise.cli import main

if __name__ == "__main__":
    main()
