"""``python -m nnhal_tools``: the ``nnhal`` command."""

from nnhal_tools.cli import main

if __name__ == "__main__":
    main()
