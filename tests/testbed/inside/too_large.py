"""In a container: an output that its device must not have the memory for. ``too_large.py DIRECTORY DEVICE BYTES``.

The pool is as large as the output, but memory counts for who touches it first, and that is the device. Prints how the
run ended as one JSON object.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from nnhal.errors import HalError
from nnhal.operations.operand_types import F32, I32
from nnhal.types import Model, Operand, OperandLifeTime, Operation, OperationType, Subgraph
from nnhal_client import Binding, connect

_ROW = 1 << 20


def main(directory: str, device: str, size: str) -> None:
    """Have a device repeat a row until there are ``size`` bytes. No other device may take it up."""
    rows = int(size) // (4 * _ROW)
    model = Model(
        Subgraph(
            (
                Operand(F32, (1, _ROW), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
                Operand(I32, (2,), lifetime=OperandLifeTime.SUBGRAPH_INPUT),
                Operand(F32, (rows, _ROW), lifetime=OperandLifeTime.SUBGRAPH_OUTPUT),
            ),
            (Operation(OperationType.TILE, (0, 1), (2,)),),
            (0, 1),
            (2,),
        )
    )
    with connect(Path(directory)) as framework:
        loaded = framework.load_model(model, devices=[device], fallback="deny")
        with loaded.bind() as binding:
            binding.inputs["input0"][...] = 1
            binding.inputs["input1"][...] = np.array([rows, 1])
            print(json.dumps({"error": _error_of(binding)}))


def _error_of(binding: Binding) -> str:
    try:
        binding.run()
    except HalError as error:
        return error.status.name
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
