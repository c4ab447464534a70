"""In a container: a launch on one device waits for one on another, and that for a fence of this process.

``fenced.py DIRECTORY FIRST SECOND`` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from nnhal.fence import FenceState, create_fence
from nnhal.types import Model, Operand, OperandLifeTime, OperandType, Operation, OperationType, Subgraph
from nnhal_client import Framework, connect

_ELEMENTS = 1024


def main(directory: str, first: str, second: str) -> None:
    """Compute FLOOR on the first device and NEG on the second, in the order of their fences."""
    given = np.linspace(-9, 9, _ELEMENTS, dtype=np.float32)
    framework = connect(Path(directory))
    assert isinstance(framework, Framework)
    with (
        framework,
        framework.load_model(_model(OperationType.FLOOR), devices=[first]).bind() as floor,
        framework.load_model(_model(OperationType.NEG), devices=[second]).bind() as negation,
    ):
        floor.inputs["input0"][:] = given
        negation.inputs["input0"][:] = given
        signal, fence = create_fence()
        floored = floor.launch([fence])
        assert floored.fence is not None
        negated = negation.launch([floored.fence])
        assert negated.fence is not None
        pending = [launched.fence.state is FenceState.PENDING for launched in (floored, negated) if launched.fence]
        signal.send()
        negated.wait()
        floored.wait()
        is_right = [
            np.array_equal(floor.outputs["output0"], np.floor(given)),
            np.array_equal(negation.outputs["output0"], -given),
        ]
    print(json.dumps({"pending": pending, "right": all(is_right)}))


def _model(code: OperationType) -> Model:
    lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    operands = tuple(Operand(OperandType.TENSOR_FLOAT32, (_ELEMENTS,), lifetime=lifetime) for lifetime in lifetimes)
    return Model(Subgraph(operands, (Operation(code, (0,), (1,)),), (0,), (1,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
