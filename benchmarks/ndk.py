"""``python -m benchmarks.ndk``: what an execution of NNAPI's API in Python costs beside a run of a binding.

The ways take turns, so that other load of the machine meets all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Annotated

import numpy as np
import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over
from nnhal.arrays import Array
from nnhal.memory import create_ashmem
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal_client import Framework
from nnhal_client.ndk import Burst, Compilation, Execution, Memory, devices
from nnhal_tools.bench.runner import Action, Report, in_turns, time_table
from nnhal_tools.up import DeviceEntry

_BOUND = "bind().run()"
_DEVICE = "cpu_acc"
_BLOCK = 50
Ends = tuple[Array, Array] | tuple[Memory, Memory]
"""Where the input and the output lie."""


def reusable(compilation: Compilation, ends: Ends) -> Execution:
    """Return an execution that may be computed again."""
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
def ways(framework: Framework, model: Model, device: str) -> Iterator[Mapping[str, Action]]:
    """Yield the ways to run a model of one element on a device."""
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
            _BOUND: bound.run,
            "reusable, buffers": on_buffers.compute,
            "reusable, memory": on_memory.compute,
            "burst": lambda: on_buffers.burst_compute(burst),
            "once, buffers": lambda: once(buffers),
            "once, memory": lambda: once(memory),
            "once, new memory": lambda: once((Memory(create_ashmem(4096, "in")), memory[1])),
            "start and wait": lambda: on_buffers.start_compute().wait(),
        }


def ndk(runs: Annotated[int, typer.Option(help="Of each way.", min=1)] = 1000) -> Report:
    """What an execution of NNAPI's API in Python costs beside a run of a binding: FLOOR of one element on cpu_acc."""
    operands = tuple(
        Operand(OperandType.TENSOR_FLOAT32, (1,), lifetime=lifetime)
        for lifetime in (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    )
    model = Model(Subgraph(operands, (Operation(OperationType.FLOOR, (0,), (1,)),), (0,), (1,)))
    with framework_over(DeviceEntry(driver=_DEVICE)) as framework, ways(framework, model, _DEVICE) as found:
        return Report([time_table("An execution", in_turns(found, runs, block=_BLOCK, settling=1), _BOUND)])


if __name__ == "__main__":
    run(ndk)
