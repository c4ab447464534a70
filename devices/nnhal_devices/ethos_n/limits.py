"""The limits of the emulated NPU. README.md gives their source."""

from __future__ import annotations

MAX_SIDE = 4096
"""Height and width of a tensor."""
MAX_DEPTH = 32_768
"""Channels of a tensor, and length of a vector."""
KERNELS = (1, 2, 3, 5, 7, 9)
"""Height and width of a filter, which may differ."""
STRIDES = (1, 2)
"""The same in both directions."""
LARGEST_STRIDED_KERNEL = 7
"""A larger filter has stride 1."""
GRANULE = 16
"""Channels that lie together in SRAM."""
LARGEST_MEAN = 8
"""Height and width of the input of a MEAN."""
LEAST_MULTIPLIER = 2.0**-32
"""The least input scale x filter scale / output scale, which also has to be below 1."""
LARGEST_RESCALING = 128.0
"""The largest input scale / output scale of operations that only requantise."""
SRAM_BYTES = 512 * 1024
