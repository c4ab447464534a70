"""A client of the framework that holds memory of devices: ``python -m tests.support.memory_keeper FRAMEWORK MODEL``.

It fills a buffer for every input of the model and binds them, prints a line, and waits to be killed.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from nnhal_client import connect
from tests.support.holding import hold, holder


def memory_keeper(framework: Path, model: Path) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """Run such a client, and wait until it holds everything; the context's end kills it."""
    return holder(__name__, str(framework), str(model))


def main() -> None:
    """Take memory and hold it until standard input ends."""
    with connect(Path(sys.argv[1])) as session:
        model = session.load(sys.argv[2], devices=["cpu_ref"])
        memories = {tensor.name: session.allocate([model.input_role(tensor.name)]) for tensor in model.inputs}
        for tensor in model.inputs:
            memories[tensor.name].copy_from(np.zeros(tensor.dimensions, np.float32))
        memories["spare"] = session.allocate([model.output_role(model.outputs[0].name)])
        model.bind(memories={name: memory for name, memory in memories.items() if name != "spare"})
        hold()


if __name__ == "__main__":
    main()
