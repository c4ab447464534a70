"""In a container: where a model runs if nobody pins it. ``planned.py DIRECTORY DEVICE…`` prints one JSON object.

The answer has the devices of the plan over all that are named, and whether a run on the first of them alone is right.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from nnhal.operations.operand_types import F32
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_client import connect

_DIMENSIONS = (256, 256)


def main(directory: str, *devices: str) -> None:
    """Plan over all of the devices, and run on the first."""
    given = np.random.default_rng(1).random(_DIMENSIONS, np.float32)
    with connect(Path(directory)) as framework:
        with framework.load_model(_model(), devices=devices) as free:
            steps = free.steps
        with framework.load_model(_model(), pins={"op:TANH": devices[0]}) as pinned:
            outputs, report = pinned.run_with_report({"input0": given})
            answer = {
                "steps": steps,
                "pinned": [step.device for step in report.steps],
                "right": bool(np.allclose(outputs["output0"], np.tanh(given), atol=1e-5)),
            }
    print(json.dumps(answer))


def _model() -> Model:
    lifetimes = (OperandLifeTime.SUBGRAPH_INPUT, OperandLifeTime.SUBGRAPH_OUTPUT)
    operands = tuple(Operand(F32, _DIMENSIONS, lifetime=lifetime) for lifetime in lifetimes)
    return Model(Subgraph(operands, (Operation(OperationType.TANH, (0,), (1,)),), (0,), (1,)))


if __name__ == "__main__":
    main(*sys.argv[1:])
