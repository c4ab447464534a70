"""``python -m nnhal_tools.health TARGET…``."""

from __future__ import annotations

import sys

from nnhal_tools.health.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
