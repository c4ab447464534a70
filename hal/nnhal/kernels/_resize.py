"""The places of an image that the pixels of its resized form are taken from."""

from __future__ import annotations

import numpy as np

from nnhal.kernels._types import Floats
from nnhal.operations import OperationContext
from nnhal.operations.resize import ResizeInput


def scale_of(op: OperationContext, length: int, resized: int) -> np.float32:
    """The scale from pixels of the output to the input: it aligns the outer pixels' centres, or their edges."""
    if op.boolean(ResizeInput.ALIGN_CORNERS) and resized > 1:
        return np.float32(length - 1) / np.float32(resized - 1)
    return np.float32(length) / np.float32(resized)


def positions(resized: int) -> Floats:
    """The place in the input of each pixel of the output, along an axis."""
    return np.arange(resized, dtype=np.float32)
