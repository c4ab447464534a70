"""MAX_POOL_2D, AVERAGE_POOL_2D, and MEAN over height and width."""

from __future__ import annotations

from nnhal.operations.pooling import Implicit, window_of
from nnhal.operations.reduction import MeanInput, axes_of_mean
from nnhal_mlip.flow.graph.flow_graph import Attribute
from nnhal_mlip.flow.graph.operators import Operator
from nnhal_mlip.importing.hal_operation import HalOperation
from nnhal_mlip.importing.windows import padding_of, size_of, strides_of

HEIGHT_AND_WIDTH = (1, 2)


def emit_max_pool_2d(op: HalOperation) -> str:
    """Add the nodes of a MAX_POOL_2D."""
    return _pooled(op, Operator.MAX_POOL2D, {})


def emit_average_pool_2d(op: HalOperation) -> str:
    """Add the nodes of an AVERAGE_POOL_2D, which does not count padding."""
    return _pooled(op, Operator.AVG_POOL2D, {"count_include_pad": False})


def emit_mean(op: HalOperation) -> str:
    """Add the nodes of a MEAN: a global average pool if it is over height and width of images."""
    given, axes = op.context.dimensions(MeanInput.INPUT), axes_of_mean(op.context)
    keep, data = op.context.integer(MeanInput.KEEP) > 0, op.tensor(MeanInput.INPUT)
    if len(given) != len("NHWC") or axes != HEIGHT_AND_WIDTH:
        return op.add(Operator.MEAN, [data], {"axis": axes, "keepdims": keep})
    value = op.output._replace(shape=(given[0], 1, 1, given[3]))
    pooled = op.add(Operator.GLOBAL_AVG_POOL2D, [data], {"layout": "NHWC"}, value)
    return pooled if keep else op.add(Operator.SQUEEZE, [pooled], {"axis": axes})


def _pooled(op: HalOperation, operator: Operator, more: dict[str, Attribute]) -> str:
    window = window_of(op.context)
    attributes: dict[str, Attribute] = {
        "pool_size": size_of(window),
        "strides": strides_of(window),
        "dilation": (1, 1),
        "padding": padding_of(window),
        "ceil_mode": False,
        "layout": "NHWC",
    }
    pooled = op.add(operator, [op.tensor(Implicit.INPUT)], attributes | more)
    return op.activated(pooled, window.activation)
