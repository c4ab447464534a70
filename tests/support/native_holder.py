"""A client that holds models of a server: ``python -m tests.support.native_holder FRAMEWORK MODEL``.

It opens the model, binds it four times, runs each binding, says so with a line, and waits to be killed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nnhal_client import connect


@contextmanager
def native_holder(framework: Path, model: str) -> Iterator[subprocess.Popen[bytes]]:
    """Such a client, which has everything; killed with the context, if not before."""
    command = [sys.executable, "-m", __name__, str(framework), model]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"holding\n"
            yield process
        finally:
            process.kill()


def main() -> None:
    """Hold bindings until standard input ends."""
    with connect(Path(sys.argv[1])) as session:
        model = session.open(sys.argv[2])
        for binding in [model.bind() for _ in range(4)]:
            binding.run()
        print("holding", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
