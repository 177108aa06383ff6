"""``python -m frugal_alloc``: the same as the command ``frugal-alloc``."""

from ._command.cli import main

if __name__ == "__main__":
    main()
