"""Let ``python -m buildkit`` do what the ``buildkit`` command does."""

from buildkit.cli import main

if __name__ == "__main__":
    main()
