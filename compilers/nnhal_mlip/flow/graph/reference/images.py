"""Windows over images, in any layout of their four axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nnhal.arrays import Array
from nnhal_mlip.flow.graph.flow_graph import FlowNode
from nnhal_mlip.flow.graph.operators import permutation
from nnhal_mlip.flow.graph.windows import extent


def channels_last(data: Array, layout: str) -> Array:
    return data.transpose(permutation(layout, "NHWC"))


def laid_out(data: Array, layout: str) -> Array:
    return np.ascontiguousarray(data.transpose(permutation("NHWC", layout)))


class ImageWindows:
    """The positions of a node's window on images with their channels last."""

    def __init__(
        self, node: FlowNode, size: tuple[int, int], lengths: tuple[int, int], ceil_mode: bool = False
    ) -> None:
        self.size = size
        self.strides = node.integers("strides")
        self.dilation = node.integers("dilation")
        top, left, bottom, right = node.integers("padding")
        self.before = (top, left)
        self.after = (bottom, right)
        around = (top + bottom, left + right)
        self.rows, self.columns = (
            extent(lengths[i], size[i], self.strides[i], self.dilation[i], around[i], ceil_mode) for i in range(2)
        )
        # How far the windows of ceil_mode reach beyond the padding.
        reach = [
            (count - 1) * self.strides[i] + (size[i] - 1) * self.dilation[i] + 1
            for i, count in enumerate((self.rows, self.columns))
        ]
        self.beyond = tuple(max(0, reach[i] - lengths[i] - around[i]) for i in range(2))

    def padded(self, data: Array, fill: float, beyond: float | None = None) -> Array:
        """Return images with what lies around them; ``beyond`` is what lies beyond the padding, if it differs."""
        if any((*self.before, *self.after)):
            data = self._extended(data, self.before, self.after, fill)
        if any(self.beyond):
            data = self._extended(data, (0, 0), self.beyond, fill if beyond is None else beyond)
        return data

    def shifted(self, padded: Array) -> Iterator[tuple[int, int, Array]]:
        """Yield for each element of the window, by row and column, what all windows see of it."""
        for row in range(self.size[0]):
            for column in range(self.size[1]):
                top, left = row * self.dilation[0], column * self.dilation[1]
                bottom = top + (self.rows - 1) * self.strides[0] + 1
                right = left + (self.columns - 1) * self.strides[1] + 1
                yield row, column, padded[:, top : bottom : self.strides[0], left : right : self.strides[1]]

    @staticmethod
    def _extended(data: Array, before: tuple[int, ...], after: tuple[int, ...], fill: float) -> Array:
        rows, columns = zip(before, after, strict=True)
        return np.pad(data, ((0, 0), rows, columns, (0, 0)), constant_values=fill)
