"""The performance figures of ethos_n: the cost model's for 8-bit types, and none for types that it lacks."""

from __future__ import annotations

from nnhal_devices.ethos_n.costs import ROOFLINE
from nnhal_devices.npu_capabilities import quant8_capabilities

CAPABILITIES = quant8_capabilities(ROOFLINE, power=0.02)
