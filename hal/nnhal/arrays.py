"""Array types that all of nnhal uses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
"""An array of any element type."""

Bytes = NDArray[np.uint8]
"""Memory as an array of bytes."""
