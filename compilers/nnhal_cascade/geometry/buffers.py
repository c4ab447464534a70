"""The sizes of buffers for stripes, as the RFC's implementation has them.

A rolling buffer here is as high as the stripe that the consumer asks for. The planner's own rolling buffers have
exactly the rows that are alive at once.
"""

from __future__ import annotations

from math import ceil, prod

from nnhal_cascade.geometry.stripe_config import StripeConfig


def recompute_bytes(config: StripeConfig, element_bytes: int = 1, ratio: float = 1) -> int:
    """Return the bytes of a buffer for one stripe. ``ratio`` is that of the compression, 1 if there is none."""
    return ceil(prod(config.shape) * element_bytes * ratio)


def rolling_bytes(config: StripeConfig, tensor: tuple[int, ...], element_bytes: int = 1, ratio: float = 1) -> int:
    """Return the bytes of a buffer that rolls along the outermost axis with several stripes.

    It is as long as a stripe along that axis, and as the tensor of the shape ``tensor`` along all others. If no axis
    has several stripes, it rolls along the first. Raises ValueError if tensor and stripes differ in rank.
    """
    if len(tensor) != len(config.shape):
        raise ValueError(
            f"rolling buffer: got a tensor of rank {len(tensor)}; expected that of its stripes, {len(config.shape)}"
        )
    extents = list(tensor)
    axis = rolling_axis(config)
    extents[axis] = config.shape[axis]
    return ceil(prod(extents) * element_bytes * ratio)


def rolling_axis(config: StripeConfig) -> int:
    """Return the axis of the outermost loop with more than one stripe, or 0."""
    striped = [axis for axis, stripes in enumerate(config.stripes) if stripes > 1]
    return min(striped, key=lambda axis: config.order[axis], default=0)
