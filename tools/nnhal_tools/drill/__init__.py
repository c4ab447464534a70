"""A testbed that loses its devices, its network and its framework while clients send requests: how many are lost."""

from nnhal_tools.drill.acts import ACTS, carry_out
from nnhal_tools.drill.site import DrillSite
from nnhal_tools.drill.traffic import ActReport, DrillTraffic

__all__ = ["ACTS", "ActReport", "DrillSite", "DrillTraffic", "carry_out"]
