"""Windows of pools that the accelerator cannot compute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnhal_devices.mlip.flow.graph.flow_graph import FlowNode
from nnhal_devices.mlip.flow.graph.layout_words import image_axes
from nnhal_devices.mlip.flow.graph.operators import Operator
from nnhal_devices.mlip.flow.graph.windows import extent
from nnhal_devices.mlip.flow.partition.flow_partition import Objection
from nnhal_devices.mlip.flow.patterns.question import CheckQuestion


def refuse_windows(
    question: CheckQuestion, pool: FlowNode, shape: Sequence[int], zeros: Sequence[int]
) -> Objection | None:
    """Beyond the public flow, object to windows without data, and to averages that count more than the padding.

    ``shape`` is that of the data, and ``zeros`` a padding before the pool that it is to take over (top, left, bottom,
    right). The public check does not look at either, and a later step refuses such pools.
    """
    if not question.rules.beyond:
        return None
    own = pool.integers("padding")
    counted = pool.operator == Operator.AVG_POOL2D and bool(pool.integer("count_include_pad"))
    for index, axis in enumerate(image_axes(pool.text("layout"))):
        kernel, stride = pool.integers("pool_size")[index], pool.integers("strides")[index]
        dilation, length = pool.integers("dilation")[index], shape[axis]
        before, after = own[index] + zeros[index], own[index + 2] + zeros[index + 2]
        count = extent(length, kernel, stride, dilation, before + after, bool(pool.integer("ceil_mode")))
        taps = np.arange(count)[:, None] * stride - before + np.arange(kernel) * dilation
        if not ((taps >= 0) & (taps < length)).any(axis=1).all():
            got = f"a window in padding {[before, after]} of {length} elements"
            return question.object_to("padding", "NO_IMPL", got, "some data in each window")
        if counted and taps.max() >= length + after:
            got = f"a window that reaches beyond the padding {[before, after]}, which counts"
            return question.object_to("ceil_mode", "NO_IMPL", got, "windows that end in the padding")
    return None
