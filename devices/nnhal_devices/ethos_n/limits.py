"""The numbers of the emulated NPU. README.md says where they come from."""

from __future__ import annotations

MAX_RANK = 4
MAX_SIDE = 4096
"""Height and width of a tensor."""
MAX_DEPTH = 32_768
"""Channels of a tensor, and length of a vector."""
KERNELS = (1, 2, 3, 5, 7, 9)
"""Height and width of a filter, which may differ."""
STRIDES = (1, 2)
"""The same in both directions."""
LARGEST_STRIDED_KERNEL = 7
"""A filter that is larger moves by 1."""
GRANULE = 16
"""Channels that lie together in SRAM."""
LARGEST_MEAN = 8
"""Height and width of an image of which the mean is taken."""
LEAST_MULTIPLIER = 2.0**-32
"""Input scale x filter scale / output scale, which has to stay below 1 besides."""
LARGEST_RESCALING = 128.0
"""Input scale / output scale where values are only requantised."""
SRAM_BYTES = 512 * 1024
