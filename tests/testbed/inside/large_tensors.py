"""In a container: tensors of 16 MiB pass through two devices.

``large_tensors.py DIRECTORY FIRST SECOND`` prints one JSON object.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from nnhal.operations.operand_types import F32
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_client import connect

_ELEMENTS = 4 << 20


def main(directory: str, first: str, second: str) -> None:
    """Run FLOOR on the first device and NEG on the second, and say what was copied."""
    operands = tuple(
        Operand(F32, (_ELEMENTS,), lifetime=lifetime)
        for lifetime in (
            OperandLifeTime.SUBGRAPH_INPUT,
            OperandLifeTime.TEMPORARY_VARIABLE,
            OperandLifeTime.SUBGRAPH_OUTPUT,
        )
    )
    operations = (Operation(OperationType.FLOOR, (0,), (1,)), Operation(OperationType.NEG, (1,), (2,)))
    model = Model(Subgraph(operands, operations, (0,), (2,)))
    given = np.linspace(-100, 100, _ELEMENTS, dtype=np.float32)
    with (
        connect(Path(directory)) as framework,
        framework.load_model(model, pins={"op:FLOOR": first, "op:NEG": second}) as loaded,
        loaded.bind(measure_timing=True) as binding,
    ):
        binding.inputs["input0"][...] = given
        before = binding.socket_bytes
        report = binding.run()
        answer = {
            "right": bool(np.array_equal(binding.outputs["output0"], -np.floor(given))),
            "tensor_bytes": 3 * given.nbytes,
            "client_socket_bytes": binding.socket_bytes - before,
            "socket_bytes": report.socket_bytes,
            "steps": [step.device for step in report.steps],
            "staged_bytes": sum(step.copied_bytes for step in report.steps),
            "ledger": [asdict(entry) for entry in report.ledger],
        }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
