"""Random interleavings of every call of the HAL, from sessions that die, with an oracle for every answer."""

from nnhal_tools.stress.report import StressFinding, StressReport
from nnhal_tools.stress.supervisor import run_stress

__all__ = ["StressFinding", "StressReport", "run_stress"]
