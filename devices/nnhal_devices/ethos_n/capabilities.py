"""The performance figures of ethos_n: the cost model's for 8-bit types, and none for types that it lacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nnhal.operations._types import Q8C
from nnhal.types import PerformanceInfo
from nnhal_devices.cpu_ref.costs import ROOFLINE as REFERENCE
from nnhal_devices.ethos_n.costs import QUANT8, ROOFLINE

_FLT_MAX = float(np.finfo(np.float32).max)
_NEVER = PerformanceInfo(_FLT_MAX, _FLT_MAX)
"""What a missing entry means in the HAL."""

CAPABILITIES = replace(
    ROOFLINE.capabilities(REFERENCE, power=0.02, types=(*QUANT8, Q8C)),
    relaxed_float32_to_float16_scalar=_NEVER,
    relaxed_float32_to_float16_tensor=_NEVER,
    if_performance=_NEVER,
    while_performance=_NEVER,
)
