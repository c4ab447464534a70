"""``python -m benchmarks.ndk``: what an execution of NNAPI's API in Python costs beside a run of a binding.

The ways take turns, so that other load of the machine meets all of them alike.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from nnhal.arrays import Array
from nnhal.memory import create_ashmem
from nnhal.types import Model
from nnhal_client import Framework, connect
from nnhal_client.ndk import Burst, Compilation, Execution, Memory, devices
from nnhal_tools.up import DeviceEntry, Testbed, Topology
from tests.support.ndk import floor_model

ROUNDS, RUNS = 20, 50
Way = Callable[[], object]


Ends = tuple[Array, Array] | tuple[Memory, Memory]
"""Where the input and the output lie."""


def reusable(compilation: Compilation, ends: Ends) -> Execution:
    """An execution that may be computed again."""
    execution, (given, result) = Execution(compilation), ends
    execution.set_reusable(True)
    if isinstance(given, Memory):
        execution.set_input_from_memory(0, given, 0, 4)
    else:
        execution.set_input(0, given)
    if isinstance(result, Memory):
        execution.set_output_from_memory(0, result, 0, 4)
    else:
        execution.set_output(0, result)
    return execution


@contextmanager
def ways(framework: Framework, model: Model, device: str) -> Iterator[Mapping[str, Way]]:
    """The ways to run a model of one element on a device."""
    with ExitStack() as stack:
        bound = stack.enter_context(framework.load_model(model, devices=[device]).bind())
        named = [each for each in devices(framework) if each.name in (device, "nnapi-reference")][:1]
        compilation = stack.enter_context(Compilation(framework, model, named))
        compilation.finish()
        buffers = np.full(1, 1.5, np.float32), np.zeros(1, np.float32)
        memory = Memory(create_ashmem(4096, "in")), Memory(create_ashmem(4096, "out"))
        on_buffers = stack.enter_context(reusable(compilation, buffers))
        on_memory = stack.enter_context(reusable(compilation, memory))
        burst = Burst(compilation)

        def once(ends: Ends) -> None:
            with reusable(compilation, ends) as execution:
                execution.compute()

        yield {
            "bind().run()": bound.run,
            "reusable, buffers": on_buffers.compute,
            "reusable, memory": on_memory.compute,
            "burst": lambda: on_buffers.burst_compute(burst),
            "once, buffers": lambda: once(buffers),
            "once, memory": lambda: once(memory),
            "once, new memory": lambda: once((Memory(create_ashmem(4096, "in")), memory[1])),
            "start and wait": lambda: on_buffers.start_compute().wait(),
        }


def measured(found: Mapping[str, Way]) -> Mapping[str, list[float]]:
    """The microseconds of the median run of each way in each round."""
    taken: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(ROUNDS):
        for name, way in found.items():
            way()
            runs = []
            for _ in range(RUNS):
                began = time.perf_counter_ns()
                way()
                runs.append(time.perf_counter_ns() - began)
            taken[name].append(median(runs) / 1000)
    return taken


def main() -> None:
    """Print a line for each way."""
    topology = Topology(device=(DeviceEntry(driver="cpu_acc"),))
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as directory,
        Testbed(topology, Path(directory)) as bed,
        connect(bed.framework) as framework,
        ways(framework, floor_model(), "cpu_acc") as found,
    ):
        print(f"{'':20}{'median us':>10}{'least us':>10}")
        for name, taken in measured(found).items():
            print(f"{name:20}{median(taken):>10.1f}{min(taken):>10.1f}")


if __name__ == "__main__":
    main()
