"""``python -m benchmarks.loading [NODES …]``: how long loading takes as models grow.

A framework and its devices run as processes of their own, and files of several kinds are loaded with each number of
nodes. Printed are seconds until the model is loaded, and the seconds of processor time that each process took for it.
``--devices`` chooses the devices, ``--models`` the kinds of files.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.startup import processor_seconds
from nnhal_client import connect
from nnhal_hosting.supervision import Child
from tests.support.long_models import MODELS

_NODES = (1250, 2500, 5000, 10_000)
_DEVICES = "cpu_acc,cpu_ref"


def main() -> int:
    """Print one line for each kind of file and number of nodes."""
    parser = argparse.ArgumentParser("python -m benchmarks.loading", description=__doc__)
    parser.add_argument("nodes", type=int, nargs="*", default=_NODES)
    parser.add_argument("--devices", default=_DEVICES, help=f"drivers, by default {_DEVICES}")
    parser.add_argument("--models", default=",".join(MODELS), help="kinds of files, by default all")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nnhal-")))
        _measure(stack, folder, arguments.devices.split(","), arguments.models.split(","), arguments.nodes)
    return 0


def _measure(
    stack: ExitStack, folder: Path, devices: Sequence[str], kinds: Sequence[str], counts: Sequence[int]
) -> None:
    """Start the processes, load everything, and print the lines."""
    processes = {name: _started(stack, "nnhal_devices", name, "--endpoint", str(folder / name)) for name in devices}
    named = [word for name in devices for word in ("--device", f"{name}={folder / name}")]
    directory = folder / "framework"
    processes["framework"] = _started(stack, "nnhal_service", "--endpoint", str(directory), *named)
    framework = connect(directory)
    stack.callback(framework.close)
    print(f"{'model':16}{'nodes':>8}{'steps':>7}{'seconds':>9}  processor time: {', '.join(processes)}")
    file = folder / "model"
    for kind in kinds:
        for nodes in counts:
            file.write_bytes(MODELS[kind](nodes))
            before = {name: processor_seconds(child.pid) for name, child in processes.items()}
            started = time.perf_counter()
            with framework.load(file) as model:
                seconds, steps = time.perf_counter() - started, len(model.steps)
            spent = [processor_seconds(child.pid) - before[name] for name, child in processes.items()]
            figures = " ".join(f"{each:8.2f}" for each in spent)
            print(f"{kind:16}{nodes:>8}{steps:>7}{seconds:>9.2f}  {figures}", flush=True)


def _started(stack: ExitStack, module: str, *arguments: str) -> Child:
    child = Child(module, arguments)
    stack.callback(child.stop)
    child.wait_until_ready()
    return child


if __name__ == "__main__":
    sys.exit(main())
