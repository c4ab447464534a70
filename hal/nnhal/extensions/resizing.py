"""Places and nearest elements of resized tensors, as ONNX Runtime finds them for Resize and Upsample of ONNX."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.float32]
Indices = NDArray[np.int64]

HALF = np.float32(0.5)
SIMPLE = "simple"
"""Rounding of opsets before 11: to the element that contains the place, or if the axis shrinks to the one behind."""
_TIE = np.float32(1e-6)
"""Places that are nearer to the middle of two elements are there."""


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """An axis of ``length`` elements that is resized to ``resized``, within the region from ``start`` to ``end``."""

    index: int
    length: int
    resized: int
    factor: np.float32
    start: np.float32
    end: np.float32

    def places(self, transformation: str) -> Places:
        """Return the positions in the input of the elements of the result, by a mode of ONNX. Raises ValueError."""
        x = np.arange(self.resized, dtype=np.float32)
        if self.factor == 1:
            return x
        if transformation == "asymmetric":
            return x / self.factor
        if transformation == "tf_half_pixel_for_nn":
            return (x + HALF) / self.factor
        length, resized = np.float32(self.length), np.float32(self.resized)
        if transformation == "align_corners":
            return x * (length - 1) / (resized - 1) if self.resized > 1 else np.zeros(1, np.float32)
        if transformation == "tf_crop_and_resize":
            if self.resized == 1:
                middle = 0.5 * float(self.start + self.end) * float(length - 1)
                return np.array([middle], np.float32)
            return self.start * (length - 1) + x * (self.end - self.start) * (length - 1) / (resized - 1)
        if transformation == "half_pixel_symmetric":
            offset = length / 2 * (1 - resized / (self.factor * length))
            return (float(offset) + (x.astype(np.float64) + 0.5) / float(self.factor) - 0.5).astype(np.float32)
        if transformation == "pytorch_half_pixel" and self.resized == 1:
            return np.zeros(1, np.float32)
        if transformation in ("half_pixel", "pytorch_half_pixel"):
            return (x + HALF) / self.factor - HALF
        raise ValueError(f"coordinate_transformation_mode {transformation}")

    def nearest(self, places: Places, rounding: str) -> Indices:
        """Return the elements that are nearest to places: a ``rounding`` of ONNX, or SIMPLE. Raises ValueError."""
        below = np.floor(places)
        if rounding in ("round_prefer_floor", "round_prefer_ceil"):
            behind = places - below
            tie = np.abs(behind - HALF) < _TIE
            above = np.where(tie, rounding == "round_prefer_ceil", behind > HALF)
        elif rounding == "ceil" or (rounding == SIMPLE and self.factor < 1):
            above = places > below
        elif rounding in ("floor", SIMPLE):
            above = np.zeros(places.shape, np.bool_)
        else:
            raise ValueError(f"nearest_mode {rounding}")
        return np.clip(below.astype(np.int64) + above, 0, self.length - 1)
