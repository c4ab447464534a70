"""What the windows of a pool see."""

from __future__ import annotations

from nnhal_devices.mlip.flow.graph.layout_words import image_axes
from nnhal_devices.mlip.flow.partition.flow_partition import Objection
from nnhal_devices.mlip.flow.patterns.question import CheckQuestion


def see_data(question: CheckQuestion) -> Objection | None:
    """Beyond the public flow, object to windows in padding that has no value.

    These are windows that see nothing else, unless an average counts the padding; and windows of such an average that
    ceil_mode lets reach beyond the padding.
    """
    if not question.rules.beyond:
        return None
    node, data = question.node, question.data
    counted = "count_include_pad" in node.attributes and bool(node.integer("count_include_pad"))
    padding, sizes, strides = (node.integers(name) for name in ("padding", "pool_size", "strides"))
    dilations = node.integers("dilation")
    for index, axis in enumerate(image_axes(node.text("layout"))):
        length, before, after = data.shape[axis], padding[index], padding[index + 2]
        size, stride, dilation = sizes[index], strides[index], dilations[index]
        starts = range(-before, question.result.shape[axis] * stride - before, stride)
        if counted and starts[-1] + (size - 1) * dilation >= length + after:
            got = f"an average that counts its padding {list(padding)}, and a window beyond it"
            return question.object_to("ceil_mode", "KERNEL", got, "count_include_pad or ceil_mode, but not both")
        if not counted and not all(_sees(start, size, dilation, length) for start in starts):
            got = f"a window of {list(sizes)} that lies in the padding {list(padding)}"
            return question.object_to("padding", "KERNEL", got, "windows with some data in each")
    return None


def _sees(start: int, size: int, dilation: int, length: int) -> bool:
    """Return whether a window that starts at ``start`` has an element within an axis."""
    skipped = max(0, -(start // dilation)) if start < 0 else 0
    return skipped < size and start + skipped * dilation < length
