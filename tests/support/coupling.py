"""Turning a test of TENSOR_QUANT8_ASYMM into one of TENSOR_QUANT8_ASYMM_SIGNED.

Values and zero points become 128 lower.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal.arrays import Array
from nnhal.operations.operand_types import Q8A, Q8AS
from nnhal.types import Model, Operand, OperandLifeTime, OperationType, Subgraph
from nnhal_tools.cases.case import Case

_WITHOUT_TWIN = frozenset(
    {
        OperationType.CAST,  # converts stored numbers
        OperationType.HASHTABLE_LOOKUP,
        OperationType.LSH_PROJECTION,  # hashes stored numbers
        OperationType.PAD_V2,  # pads with a stored number, which is an INT32
        OperationType.QUANTIZED_16BIT_LSTM,
    }
)
_SIGN = 0x80


def has_signed_counterpart(vector: Case) -> bool:
    """Return whether a test has unsigned values, and all its operations also take signed ones."""
    graphs = (vector.model.main, *vector.model.referenced)
    codes = {operation.type for graph in graphs for operation in graph.operations}
    types = {operand.type for graph in graphs for operand in graph.operands}
    return Q8A in types and not codes & _WITHOUT_TWIN


def signed_counterpart(vector: Case) -> Case:
    main = vector.model.main
    return replace(
        vector,
        model=_signed_model(vector.model),
        inputs=tuple(
            None if array is None else _signed(main.operands[index], array)
            for index, array in zip(main.input_indexes, vector.inputs, strict=True)
        ),
        outputs=tuple(
            replace(expected, values=_signed(main.operands[index], expected.values))
            for index, expected in zip(main.output_indexes, vector.outputs, strict=True)
        ),
    )


def _signed_model(model: Model) -> Model:
    values = np.frombuffer(model.operand_values, np.uint8).copy()
    for graph in (model.main, *model.referenced):
        for operand in graph.operands:
            if operand.type == Q8A and operand.lifetime == OperandLifeTime.CONSTANT_COPY:
                start = operand.location.offset
                values[start : start + operand.location.length] ^= _SIGN
    main, *referenced = (_signed_graph(graph) for graph in (model.main, *model.referenced))
    return replace(model, main=main, referenced=tuple(referenced), operand_values=values.tobytes())


def _signed_graph(graph: Subgraph) -> Subgraph:
    return replace(graph, operands=tuple(_signed_operand(operand) for operand in graph.operands))


def _signed_operand(operand: Operand) -> Operand:
    if operand.type != Q8A:
        return operand
    return replace(operand, type=Q8AS, zero_point=operand.zero_point - _SIGN)


def _signed(operand: Operand, values: Array) -> Array:
    return (values ^ _SIGN).view(np.int8) if operand.type == Q8A else values
