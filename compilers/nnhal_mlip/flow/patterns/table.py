"""The pattern table: which operators make a layer, in the order in which they are looked for.

An operator that an earlier row takes is not seen by later ones. The public rows and their order are those of TVM 0.19.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.patterns import checks
from nnhal_mlip.flow.patterns.parts import (
    ACTIVATION,
    BATCH_NORM,
    BIAS,
    FLATTEN,
    PAD,
    TO_CHANNELS_FIRST,
    PatternPart,
)
from nnhal_mlip.flow.patterns.question import CheckQuestion

OperatorCheck = Callable[[CheckQuestion], Objection | None]


class LayerPattern(NamedTuple):
    """A row of the table."""

    composite: str
    """Empty if the operator goes alone, without a composite around it."""
    before: tuple[PatternPart, ...]
    """What may stand before the operator: all of it, or nothing."""
    asked: Operator
    """The operator that the layer is about, and that the check asks."""
    after: tuple[PatternPart, ...]
    """What may stand behind it: each if it is there."""
    check: OperatorCheck
    public: bool = True
    """True if the public table has the row."""


_CONV = (BIAS, BATCH_NORM, ACTIVATION)
_FLATTENED = (TO_CHANNELS_FIRST, FLATTEN)
_DENSE = (BIAS, ACTIVATION)
_SUM = (ACTIVATION,)

PATTERNS = (
    LayerPattern("mrvl.conv2d_nhwc2nhwc", (PAD,), Operator.CONV2D, _CONV, checks.check_conv2d),
    LayerPattern(
        "nnhal.conv2d_transpose", (), Operator.CONV2D_TRANSPOSE, _CONV, checks.check_conv2d_transpose, public=False
    ),
    LayerPattern("mrvl.fc_ni2no", _FLATTENED, Operator.DENSE, _DENSE, checks.check_dense),
    LayerPattern("mrvl.maxpool2d_nhwc2nhwc", (PAD,), Operator.MAX_POOL2D, (), checks.check_max_pool2d),
    LayerPattern("mrvl.avgpool2d_nhwc2nhwc", (PAD,), Operator.AVG_POOL2D, (), checks.check_average_pool2d),
    LayerPattern("mrvl.globalavgpool2d_nhwc2nhwc", (), Operator.GLOBAL_AVG_POOL2D, (), checks.check_global_avg_pool2d),
    LayerPattern("mrvl.globalmaxpool2d_nhwc2nhwc", (), Operator.GLOBAL_MAX_POOL2D, (), checks.check_global_max_pool2d),
    LayerPattern("mrvl.sum", (), Operator.ADD, _SUM, checks.check_add),
    LayerPattern("mrvl.concat", (), Operator.CONCATENATE, (), checks.check_concatenate),
    LayerPattern("mrvl.reshape", (), Operator.RESHAPE, (), checks.check_reshape),
    LayerPattern("mrvl.batch_flatten", (), Operator.BATCH_FLATTEN, (), checks.check_batch_flatten),
    LayerPattern("mrvl.squeeze", (), Operator.SQUEEZE, (), checks.check_squeeze),
    LayerPattern("", (), Operator.LAYOUT_TRANSFORM, (), checks.check_layout_transform),
    LayerPattern("nnhal.product", (), Operator.MULTIPLY, _SUM, checks.check_multiply, public=False),
    LayerPattern("", (), Operator.TRANSPOSE, (), checks.check_elementwise, public=False),
    LayerPattern("", (), Operator.PAD, (), checks.check_pad, public=False),
    LayerPattern("", (), Operator.MEAN, (), checks.check_mean, public=False),
    LayerPattern("", (), Operator.RELU, (), checks.check_elementwise, public=False),
    LayerPattern("", (), Operator.CLIP, (), checks.check_elementwise, public=False),
    LayerPattern("", (), Operator.BATCH_MATMUL, (), checks.check_matmul, public=False),
    LayerPattern("", (), Operator.LAYER_NORM, (), checks.check_rows, public=False),
    LayerPattern("", (), Operator.SOFTMAX, (), checks.check_rows, public=False),
    LayerPattern("", (), Operator.STRIDED_SLICE, (), checks.check_elementwise, public=False),
    LayerPattern("", (), Operator.UPSAMPLING, (), checks.check_upsampling, public=False),
    *(
        LayerPattern("", (), Operator(operator), (), checks.check_elementwise, public=False)
        for operator in sorted(TABLES)
    ),
)
