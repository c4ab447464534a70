"""Types that the kernels share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nnhal.arrays import Array

__all__ = ["Array", "Floats", "Integers"]

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
