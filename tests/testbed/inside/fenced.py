"""In a container: a launch on one device waits for one on another, and that for a fence of this process.

``fenced.py DIRECTORY FIRST SECOND`` prints one JSON object. Names of devices are the NDK's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from nnhal.fence import FenceState, create_fence
from nnhal.memory import create_ashmem, open_pool
from nnhal.operations._types import F32
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_client import connect
from nnhal_client.ndk import Compilation, Event, Execution, Memory, devices

_ELEMENTS = 1024


def main(directory: str, first: str, second: str) -> None:
    """Compute FLOOR on the first device and NEG on the second, in the order of their fences."""
    given = np.linspace(-9, 9, _ELEMENTS, dtype=np.float32)
    pools = [create_ashmem(given.nbytes, name) for name in ("given", "between", "result")]
    open_pool(pools[0], writable=True).write(0, given.view(np.uint8))
    memories = [Memory(pool) for pool in pools]
    with connect(Path(directory)) as framework:
        known = {device.name: device for device in devices(framework)}
        steps = []
        for code, device, source, destination in (
            (OperationType.FLOOR, first, memories[0], memories[1]),
            (OperationType.NEG, second, memories[1], memories[2]),
        ):
            compilation = Compilation(framework, _model(code), [known[device]])
            compilation.finish()
            execution = Execution(compilation)
            execution.set_input_from_memory(0, source)
            execution.set_output_from_memory(0, destination)
            steps.append((compilation, execution))
        signal, fence = create_fence()
        floored = steps[0][1].start_compute_with_dependencies([Event.from_sync_fence(fence)])
        negated = steps[1][1].start_compute_with_dependencies([floored])
        pending = [event.sync_fence.state is FenceState.PENDING for event in (floored, negated)]
        signal.send()
        negated.wait()
        result = open_pool(pools[2], writable=False).read(0, given.nbytes).view(np.float32)
        answer = {"pending": pending, "right": bool(np.array_equal(result, -np.floor(given)))}
        for compilation, execution in steps:
            execution.close()
            compilation.close()
    print(json.dumps(answer))


def _model(code: OperationType) -> Model:
    lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    operands = tuple(Operand(F32, (_ELEMENTS,), lifetime=lifetime) for lifetime in lifetimes)
    return Model(Subgraph(operands, (Operation(code, (0,), (1,)),), (0,), (1,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
