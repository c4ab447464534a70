"""The limits of the emulated NPU. README.md gives their source."""

from __future__ import annotations

MAX_EXTENT = 65_535
"""Elements along each axis of a tensor."""
STRIDES = range(1, 4)
"""In each direction. An axis on which only one window fits may have any."""
TRANSPOSE_STRIDES = (1, 2)
MAX_FILTER_HEIGHT = 64
"""The greatest height of a convolution's filter, with its dilation."""
MAX_FILTER_AREA = 64 * 64
"""Height times width of a convolution's filter, with its dilation."""
MAX_FILTER_SUM = 127 * 65_536
"""The sum of the magnitudes of one output channel's weights."""
MAX_PADDED_POOL = 8
"""Height and width of an average pooling with padding."""
MAX_POOL_HEIGHT = 256
MAX_POOL_AREA = 256 * 256
MAX_MEAN = 2**23
"""Elements of a mean."""
MAX_MEAN_EXTENT = 64 * 64
"""Columns, and channels, of a mean over that axis."""
RESIZE_FACTORS = (1, 2, 4, 8)
