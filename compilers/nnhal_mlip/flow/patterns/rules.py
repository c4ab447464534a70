"""The limits of the accelerator as data: those of the public flow, and the wider ones of nnhal.

The public limits are those of TVM 0.19 (python/tvm/relay/op/contrib/mrvl.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_mlip.flow.graph.operators import TABLES, Operator
from nnhal_mlip.flow.passes.layout_conversion import MAX_BATCH

MAX_RANK = 4


@dataclass(frozen=True, slots=True)
class FlowRules:
    """Limits of the accelerator."""

    beyond: bool
    """True if these go beyond the public flow. If so, whatever is taken compiles."""
    element_types: tuple[str, ...]
    groups: bool
    """True if convolutions may have groups that are not single channels."""
    average_batch: int
    """The largest batch of average pools."""
    layouts: tuple[str, ...]
    """The layouts that average and global pools may have."""
    sum_ranks: tuple[int, ...]
    """The ranks that the left operand may have."""
    concat_ranks: tuple[int, ...]
    concat_batch: int
    concat_fields: int
    """The fewest."""
    concat_axes: tuple[int, ...]
    reshape_ranks: tuple[int, ...]
    """The ranks that input and result may have."""
    transforms: tuple[tuple[str, str], ...]
    """From which layout to which."""
    activations: tuple[Operator, ...]
    """That are fused."""
    left_bias: bool
    """True if the constant of a bias may be the left operand."""


PUBLIC = FlowRules(
    beyond=False,
    element_types=("float32",),
    groups=False,
    average_batch=1,
    layouts=("NHWC",),
    sum_ranks=(3, 4),
    concat_ranks=(4,),
    concat_batch=1,
    concat_fields=2,
    concat_axes=(3,),
    reshape_ranks=(2, 4),
    transforms=(("NCHW", "NHWC"),),
    activations=(Operator.RELU,),
    left_bias=False,
)
BEYOND = FlowRules(
    beyond=True,
    element_types=("float32", "float16", "int8"),
    groups=True,
    average_batch=MAX_BATCH,
    layouts=("NHWC", "NCHW"),
    sum_ranks=(1, 2, 3, 4),
    concat_ranks=(1, 2, 3, 4),
    concat_batch=MAX_BATCH,
    concat_fields=1,
    concat_axes=(-4, -3, -2, -1, 0, 1, 2, 3),
    reshape_ranks=(1, 2, 3, 4),
    transforms=(("NCHW", "NHWC"), ("NHWC", "NCHW")),
    activations=(Operator.RELU, Operator.CLIP, *(Operator(each) for each in TABLES)),
    left_bias=True,
)
