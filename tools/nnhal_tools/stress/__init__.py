"""Random interleavings of every call of the HAL, from sessions that die, with an oracle for every answer."""

from nnhal_tools.stress.drawing import draw_clients
from nnhal_tools.stress.reduction import ReducedScript, reduce_script
from nnhal_tools.stress.report import StressFinding, StressReport
from nnhal_tools.stress.script import Act, ClientScript, StressScript
from nnhal_tools.stress.supervisor import run_script, run_stress

__all__ = [
    "Act",
    "ClientScript",
    "ReducedScript",
    "StressFinding",
    "StressReport",
    "StressScript",
    "draw_clients",
    "reduce_script",
    "run_script",
    "run_stress",
]
