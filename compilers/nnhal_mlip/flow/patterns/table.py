"""The pattern table: which operators make a layer, in the order in which they are looked for.

An operator that an earlier row takes is not seen by later ones. The public rows and their order are those of TVM 0.19.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from nnhal_mlip.flow.flow_partition import Objection
from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.limits import PUBLIC
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
    """Parts that may stand before the operator: all of them, or none."""
    asked: Operator
    """The operator that the layer is about, and that the check asks."""
    after: tuple[PatternPart, ...]
    """Optional parts behind the operator."""
    check: OperatorCheck | None = None
    """Objects to what the limits of the operator cannot say."""

    @property
    def public(self) -> bool:
        """Return whether the public table has the row."""
        return self.asked in PUBLIC.operators

    def objection(self, question: CheckQuestion) -> Objection | None:
        """Return why the accelerator does not take the operator that is asked."""
        own = self.check(question) if self.check and self.asked in _OWN_FIRST else None
        return own or checks.check_limits(question) or (self.check(question) if self.check else None)


_OWN_FIRST = (Operator.ADD, Operator.CONCATENATE)
"""Operators whose own check gives the better reason, so that it is asked before the limits."""
_CONV = (BIAS, BATCH_NORM, ACTIVATION)
_FLATTENED = (TO_CHANNELS_FIRST, FLATTEN)
_DENSE = (BIAS, ACTIVATION)
_SUM = (ACTIVATION,)

PATTERNS = (
    LayerPattern("mrvl.conv2d_nhwc2nhwc", (PAD,), Operator.CONV2D, _CONV, checks.check_groups),
    LayerPattern("nnhal.conv2d_transpose", (), Operator.CONV2D_TRANSPOSE, _CONV, checks.check_conv2d_transpose),
    LayerPattern("mrvl.fc_ni2no", _FLATTENED, Operator.DENSE, _DENSE),
    LayerPattern("mrvl.maxpool2d_nhwc2nhwc", (PAD,), Operator.MAX_POOL2D, (), checks.check_windows),
    LayerPattern("mrvl.avgpool2d_nhwc2nhwc", (PAD,), Operator.AVG_POOL2D, (), checks.check_windows),
    LayerPattern("mrvl.globalavgpool2d_nhwc2nhwc", (), Operator.GLOBAL_AVG_POOL2D, ()),
    LayerPattern("mrvl.globalmaxpool2d_nhwc2nhwc", (), Operator.GLOBAL_MAX_POOL2D, ()),
    LayerPattern("mrvl.sum", (), Operator.ADD, _SUM, checks.check_add),
    LayerPattern("mrvl.concat", (), Operator.CONCATENATE, (), checks.check_concatenate),
    LayerPattern("mrvl.reshape", (), Operator.RESHAPE, ()),
    LayerPattern("mrvl.batch_flatten", (), Operator.BATCH_FLATTEN, ()),
    LayerPattern("mrvl.squeeze", (), Operator.SQUEEZE, ()),
    LayerPattern("", (), Operator.LAYOUT_TRANSFORM, (), checks.check_layout_transform),
    LayerPattern("nnhal.product", (), Operator.MULTIPLY, _SUM, checks.check_multiply),
    LayerPattern("", (), Operator.TRANSPOSE, ()),
    LayerPattern("", (), Operator.PAD, (), checks.check_zeros),
    LayerPattern("", (), Operator.MEAN, (), checks.check_mean),
    LayerPattern("", (), Operator.RELU, ()),
    LayerPattern("", (), Operator.CLIP, ()),
    LayerPattern("", (), Operator.BATCH_MATMUL, (), checks.check_matmul),
    LayerPattern("", (), Operator.LAYER_NORM, (), checks.check_rows),
    LayerPattern("", (), Operator.SOFTMAX, (), checks.check_rows),
    LayerPattern("", (), Operator.STRIDED_SLICE, ()),
    LayerPattern("", (), Operator.UPSAMPLING, ()),
    *(LayerPattern("", (), Operator(operator), ()) for operator in sorted(TABLES)),
)
