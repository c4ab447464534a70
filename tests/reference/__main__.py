"""``python -m tests.reference [PAGE]...``: make pages of docs/reference from the code; all of them without names."""

from __future__ import annotations

import sys

from tests.reference.pages import FOLDER, PAGES

if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        if name not in PAGES:
            sys.exit(f"python -m tests.reference: got {name}, expected one of {', '.join(PAGES)}")
        (FOLDER / name).write_text(PAGES[name]())
