"""The shapes of what operations of the extension nnhal.tflite make, as far as they follow from those of their inputs.

A file may leave open lengths that follow from the inputs. What is unknown here is known only after an execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from nnhal.types.layout import Dimensions
from nnhal_frontends.tflite.builder import TfliteGraphBuilder
from nnhal_frontends.tflite.graph import TfliteOperator

_Rule = Callable[[TfliteGraphBuilder, TfliteOperator, Dimensions], Dimensions]


def result_shapes(
    builder: TfliteGraphBuilder, operators: Iterable[TfliteOperator], known: Mapping[int, Dimensions]
) -> dict[int, Dimensions]:
    """Return the dimensions of the first results of operators, in the order in which they are computed.

    ``known`` has those of the tensors that they read of others.
    """
    found = dict(known)
    for operator in operators:
        rule = _RULES.get(operator.op_type)
        source = operator.inputs[0] if operator.inputs else None
        if rule is not None and source is not None and operator.outputs:
            dimensions = found.get(source) or builder.graph.tensors[source].shape
            if dimensions:
                found[operator.outputs[0]] = rule(builder, operator, dimensions)
    return {index: dimensions for index, dimensions in found.items() if index not in known and dimensions}


def _same(builder: TfliteGraphBuilder, operator: TfliteOperator, given: Dimensions) -> Dimensions:
    del builder, operator
    return given


def _squeezed(builder: TfliteGraphBuilder, operator: TfliteOperator, given: Dimensions) -> Dimensions:
    del builder
    axes = {axis % len(given) for axis in operator.vector}
    if not axes and 0 in given:
        return ()
    return tuple(n for axis, n in enumerate(given) if (axis not in axes if axes else n != 1))


def _expanded(builder: TfliteGraphBuilder, operator: TfliteOperator, given: Dimensions) -> Dimensions:
    axes = _integers(builder, operator, 1)
    if len(axes) != 1 or not -len(given) - 1 <= axes[0] <= len(given):
        return ()
    axis = axes[0] % (len(given) + 1)
    return (*given[:axis], 1, *given[axis:])


def _transformed(builder: TfliteGraphBuilder, operator: TfliteOperator, given: Dimensions) -> Dimensions:
    lengths = _integers(builder, operator, 1)
    if len(lengths) != 2 or len(given) < 2:
        return ()
    return (*given[:-2], lengths[0], lengths[1] // 2 + 1)


def _integers(builder: TfliteGraphBuilder, operator: TfliteOperator, position: int) -> list[int]:
    """Return the integers of a constant input; empty if there is none."""
    index = operator.inputs[position] if position < len(operator.inputs) else None
    values = None if index is None or not builder.is_known(index) else builder.values(index)
    return [] if values is None or values.dtype.kind not in "iu" else [int(n) for n in np.ravel(values)[:8]]


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(
        (
            "ABS",
            "BUCKETIZE",
            "CAST",
            "COMPLEX_ABS",
            "CUMSUM",
            "DEQUANTIZE",
            "DYNAMIC_UPDATE_SLICE",
            "FAKE_QUANT",
            "GELU",
            "IMAG",
            "QUANTIZE",
            "REAL",
            "REVERSE_SEQUENCE",
            "ROUND",
            "SIGN",
        ),
        _same,
    ),
    "EXPAND_DIMS": _expanded,
    "RFFT2D": _transformed,
    "SQUEEZE": _squeezed,
}
