"""Distance of values from those that are expected, and its limits."""

from nnhal_tools.distance.figures import Distance, Figures, steps_between
from nnhal_tools.distance.limits import Limits, is_half, judged, tolerance_of

__all__ = ["Distance", "Figures", "Limits", "is_half", "judged", "steps_between", "tolerance_of"]
