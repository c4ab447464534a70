"""Writing conformance vectors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import inline_constants
from nnhal.types import ChannelQuant, Model, Operand, OperandLifeTime, OperandType, OperationType


def vector_line(name: str, group: str, model: Model, inputs: Sequence[Array], outputs: Sequence[Array]) -> str:
    """Return a test as a line of a file of vectors.

    The model has main only, operations of the base set only, and all its constants in its operand values.
    """
    main = model.main
    values: Mapping[int, Array] = {
        **inline_constants(model)[0],
        **dict(zip(main.input_indexes, inputs, strict=True)),
        **dict(zip(main.output_indexes, outputs, strict=True)),
    }
    test = {
        "name": name,
        "spec": group,
        "relaxed": model.relax_computation_float32_to_float16,
        "expect_failure": False,
        "multinomial_tolerance": 0.0,
        "main": {
            "operands": [_operand(operand, values.get(number)) for number, operand in enumerate(main.operands)],
            "operations": [
                {"type": OperationType(o.type).name, "inputs": list(o.inputs), "outputs": list(o.outputs)}
                for o in main.operations
            ],
            "inputs": list(main.input_indexes),
            "outputs": list(main.output_indexes),
        },
    }
    return json.dumps(test, allow_nan=False)


def _operand(operand: Operand, values: Array | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": OperandType(operand.type).name,
        "dimensions": list(operand.dimensions),
        "scale": operand.scale,
        "zero_point": operand.zero_point,
        "lifetime": OperandLifeTime(operand.lifetime).name,
    }
    if isinstance(operand.extra_params, ChannelQuant):
        params = operand.extra_params
        found["channel_quant"] = {"scales": list(params.scales), "channel_dim": params.channel_dim}
    if values is not None:
        found["data"] = [_number(value) for value in values.reshape(-1).tolist()]
    return found


def _number(value: float | bool) -> float | int | str:
    if isinstance(value, float) and not np.isfinite(value):
        return "nan" if np.isnan(value) else "inf" if value > 0 else "-inf"
    return int(value) if isinstance(value, bool) else value
