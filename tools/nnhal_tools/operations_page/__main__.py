"""``python -m nnhal_tools.operations_page [FILE.md]``: write the page to a file or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from nnhal_tools.operations_page.page import operations_page

if __name__ == "__main__":
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(operations_page())
    else:
        sys.stdout.write(operations_page())
