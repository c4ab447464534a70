"""Which places of an image the pixels of its resized form come from."""

from __future__ import annotations

import numpy as np

from nnhal.operations import OperationContext
from nnhal.operations._resize import ResizeInput
from nnhal_devices.cpu_ref.kernels._types import Floats


def scale_of(op: OperationContext, length: int, resized: int) -> np.float32:
    """From a pixel of the output to places of the input: the outer pixels' centres on one another, or their edges."""
    if op.boolean(ResizeInput.ALIGN_CORNERS) and resized > 1:
        return np.float32(length - 1) / np.float32(resized - 1)
    return np.float32(length) / np.float32(resized)


def positions(resized: int) -> Floats:
    """The pixels of the output along an axis."""
    return np.arange(resized, dtype=np.float32)
