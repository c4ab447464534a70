"""Writing conformance vectors."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nnhal.arrays import Array
from nnhal.resolved import inline_constants
from nnhal.types import ChannelQuant, Operand, OperandLifeTime, OperandType, OperationType, Subgraph
from nnhal_tools.conformance.vectors import Vector


def vector_line(vector: Vector) -> str:
    """Return a test as a line of a file of vectors.

    The model has operations of the base set only, and all its constants in its operand values.
    """
    model = vector.model
    constants = inline_constants(model)
    graphs = [_Graph(graph, values) for graph, values in zip((model.main, *model.referenced), constants, strict=True)]
    inputs = dict(zip(model.main.input_indexes, vector.inputs, strict=True))
    outputs = dict(zip(model.main.output_indexes, vector.outputs, strict=True))
    graphs[0] = _Graph(
        model.main,
        {
            **constants[0],
            **{number: values for number, values in inputs.items() if values is not None},
            **{number: expected.values for number, expected in outputs.items()},
        },
        frozenset(number for number, expected in outputs.items() if not expected.compared),
        vector.names,
    )
    test: dict[str, Any] = {
        "name": vector.name,
        "spec": vector.group,
        "relaxed": model.relax_computation_float32_to_float16,
        "expect_failure": vector.expect_failure,
        "multinomial_tolerance": vector.multinomial_tolerance,
        **{key: said for key, said in _manner(vector) if said},
        **({} if vector.limits is None else {"limits": vector.limits.said()}),
        "main": graphs[0].written(),
    }
    if model.referenced:
        test["referenced"] = [graph.written() for graph in graphs[1:]]
    return json.dumps(test, allow_nan=False)


def _manner(vector: Vector) -> list[tuple[str, str | float | None]]:
    return [
        ("mode", vector.mode),
        ("memory", vector.memory),
        ("deadline", vector.seconds),
        ("paint_outputs", vector.paints),
    ]


@dataclass(frozen=True, slots=True)
class _Graph:
    graph: Subgraph
    values: Mapping[int, Array]
    ignored: Collection[int] = ()
    names: Sequence[str] = ()

    def written(self) -> dict[str, Any]:
        operands = [_operand(operand, self.values.get(number)) for number, operand in enumerate(self.graph.operands)]
        for number in self.ignored:
            operands[number]["ignored"] = True
        for number, name in enumerate(self.names):
            if name:
                operands[number]["name"] = name
        return {
            "operands": operands,
            "operations": [
                {"type": OperationType(o.type).name, "inputs": list(o.inputs), "outputs": list(o.outputs)}
                for o in self.graph.operations
            ],
            "inputs": list(self.graph.input_indexes),
            "outputs": list(self.graph.output_indexes),
        }


def _operand(operand: Operand, values: Array | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": OperandType(operand.type).name,
        "dimensions": list(operand.dimensions),
        "scale": operand.scale,
        "zero_point": operand.zero_point,
        "lifetime": OperandLifeTime(operand.lifetime).name,
    }
    if operand.lifetime == OperandLifeTime.SUBGRAPH:
        found["subgraph"] = operand.location.offset
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
