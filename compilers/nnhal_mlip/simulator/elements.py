"""The element types of tensors as numpy has them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nnhal_mlip.program.program import TensorType

ELEMENT_DTYPES: Mapping[TensorType, np.dtype[np.generic]] = MappingProxyType(
    {
        TensorType.INT8: np.dtype("<i1"),
        TensorType.UINT8: np.dtype("<u1"),
        TensorType.INT16: np.dtype("<i2"),
        TensorType.UINT16: np.dtype("<u2"),
        TensorType.INT32: np.dtype("<i4"),
        TensorType.UINT32: np.dtype("<u4"),
        TensorType.FP16: np.dtype("<f2"),
        TensorType.FP32: np.dtype("<f4"),
        TensorType.INT64: np.dtype("<i8"),
        TensorType.UINT64: np.dtype("<u8"),
    }
)


def is_float(type_: TensorType) -> bool:
    """Whether values of a type are real numbers, which have no scale."""
    return type_ in (TensorType.FP16, TensorType.FP32)
