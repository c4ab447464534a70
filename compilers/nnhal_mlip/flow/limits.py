"""The limits of the accelerator, operator by operator: those of the public flow, and the wider ones of nnhal.

The public limits are those of TVM 0.19 (python/tvm/relay/op/contrib/mrvl.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnhal_mlip.flow.graph.operators import TABLES, Operator

MAX_BATCH = 8
"""The public compile step refuses more, whatever the operator."""
MAX_RANK = 4
_ANY_RANK = (1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class OperatorLimits:
    """Limits of an operator. An empty one is no limit."""

    ranks: tuple[int, ...] = ()
    """Of the first operand."""
    results: tuple[int, ...] = ()
    """The ranks of the result."""
    operand: str = "data"
    """The name of the first operand in messages."""
    batch: int = 0
    """The largest of the first operand."""
    known_batch: bool = False
    weights: int = 0
    """The rank of the second operand, which is constant."""
    layouts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The layouts that an attribute may have, if the operator has the attribute."""
    groups: bool = True
    """True if convolutions may have groups that are not single channels."""
    fields: int = 1
    """The fewest of a concatenation."""
    field_ranks: tuple[int, ...] = ()
    field_batch: int = 0
    axes: tuple[int, ...] = ()
    """Along which tensors are concatenated."""
    transforms: tuple[tuple[str, str], ...] = ()
    """From which layout to which."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Limits of the accelerator."""

    beyond: bool
    """True if these go beyond the public flow. If so, whatever is taken compiles."""
    element_types: tuple[str, ...]
    activations: tuple[Operator, ...]
    """The activations that are fused."""
    left_bias: bool
    """True if the constant of a bias may be the left operand."""
    operators: Mapping[Operator, OperatorLimits]
    """Of the operators that layers are about; others are no layers."""


_LAST: Mapping[str, tuple[str, ...]] = {"layout": ("NHWC",)}
_EITHER: Mapping[str, tuple[str, ...]] = {"layout": ("NHWC", "NCHW")}
_CONVOLUTION: Mapping[str, tuple[str, ...]] = {"data_layout": ("NHWC",), "kernel_layout": ("OHWI",)}
_NO_LIMITS = OperatorLimits()
_AVERAGE = OperatorLimits((4,), batch=1, layouts=_LAST)
_WIDE_AVERAGE = OperatorLimits((4,), batch=MAX_BATCH, layouts=_EITHER)

PUBLIC = FlowLimits(
    beyond=False,
    element_types=("float32",),
    activations=(Operator.RELU,),
    left_bias=False,
    operators={
        Operator.CONV2D: OperatorLimits(
            (4,), batch=MAX_BATCH, known_batch=True, weights=4, layouts=_CONVOLUTION, groups=False
        ),
        Operator.DENSE: OperatorLimits(weights=2),
        Operator.MAX_POOL2D: OperatorLimits((4,), batch=MAX_BATCH, layouts=_LAST),
        Operator.AVG_POOL2D: _AVERAGE,
        Operator.GLOBAL_AVG_POOL2D: _AVERAGE,
        # The public layout pass leaves this operator in the layout of its source.
        Operator.GLOBAL_MAX_POOL2D: OperatorLimits((4,), layouts={"layout": ("NHWC",), "source_layout": ("NHWC",)}),
        Operator.ADD: OperatorLimits((3, 4), _ANY_RANK, "a left operand", MAX_BATCH),
        Operator.CONCATENATE: OperatorLimits(fields=2, field_ranks=(4,), field_batch=1, axes=(3,)),
        # The public check asks for the rank of the result alone, and a later step aborts.
        Operator.RESHAPE: OperatorLimits((2, 4), (2, 4), "an input"),
        Operator.BATCH_FLATTEN: OperatorLimits((2, 4)),
        Operator.SQUEEZE: _NO_LIMITS,
        Operator.LAYOUT_TRANSFORM: OperatorLimits(transforms=(("NCHW", "NHWC"),)),
    },
)
BEYOND = FlowLimits(
    beyond=True,
    element_types=("float32", "float16", "int8"),
    activations=(Operator.RELU, Operator.CLIP, *(Operator(each) for each in TABLES)),
    left_bias=True,
    operators={
        **PUBLIC.operators,
        Operator.CONV2D: OperatorLimits((4,), batch=MAX_BATCH, known_batch=True, weights=4, layouts=_CONVOLUTION),
        Operator.CONV2D_TRANSPOSE: OperatorLimits((4,), weights=4, layouts=_CONVOLUTION),
        Operator.AVG_POOL2D: _WIDE_AVERAGE,
        Operator.GLOBAL_AVG_POOL2D: _WIDE_AVERAGE,
        Operator.GLOBAL_MAX_POOL2D: OperatorLimits((4,), layouts=_EITHER),
        Operator.ADD: OperatorLimits(_ANY_RANK, _ANY_RANK, "a left operand", MAX_BATCH),
        Operator.CONCATENATE: OperatorLimits(
            field_ranks=_ANY_RANK, field_batch=MAX_BATCH, axes=(-4, -3, -2, -1, 0, 1, 2, 3)
        ),
        Operator.RESHAPE: OperatorLimits(_ANY_RANK, _ANY_RANK, "an input"),
        Operator.BATCH_FLATTEN: OperatorLimits((2, 3, 4)),
        Operator.LAYOUT_TRANSFORM: OperatorLimits(transforms=(("NCHW", "NHWC"), ("NHWC", "NCHW"))),
        Operator.UPSAMPLING: OperatorLimits((4,)),
        **dict.fromkeys(
            (
                Operator.MULTIPLY,
                Operator.TRANSPOSE,
                Operator.PAD,
                Operator.MEAN,
                Operator.RELU,
                Operator.CLIP,
                Operator.BATCH_MATMUL,
                Operator.LAYER_NORM,
                Operator.SOFTMAX,
                Operator.STRIDED_SLICE,
                *(Operator(each) for each in TABLES),
            ),
            _NO_LIMITS,
        ),
    },
)
