"""A client that holds models of a server: ``python -m tests.support.native_holder FRAMEWORK MODEL``.

It opens the model, binds it four times, runs each binding, prints a line, and waits to be killed.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from nnhal_client import connect
from tests.support.holding import hold, holder


def native_holder(framework: Path, model: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run such a client, and wait until it holds everything; the context's end kills it."""
    return holder(__name__, str(framework), model)


def main() -> None:
    """Hold bindings until standard input ends."""
    with connect(Path(sys.argv[1])) as session:
        model = session.open(sys.argv[2])
        bindings = [model.bind() for _ in range(4)]
        for binding in bindings:
            binding.run()
        hold()


if __name__ == "__main__":
    main()
