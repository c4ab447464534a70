"""``python -m tests.prose [PAGE]...``: say what is wrong with pages for people and with the reference.

Exits with 1 if anything is. Without names it reads every page.
"""

from __future__ import annotations

import sys

from tests.prose.checks import pages, problems

if __name__ == "__main__":
    found = [problem for page in sys.argv[1:] or pages() for problem in problems(page)]
    print("\n".join(found), file=sys.stderr, end="\n" if found else "")
    sys.exit(bool(found))
