"""A model on two devices, layer by layer: where they part, and by how much."""

from nnhal_tools.diff.model_diff import diff_model
from nnhal_tools.diff.report import DiffReport, LayerDiff
from nnhal_tools.distance.limits import Limits

__all__ = ["DiffReport", "LayerDiff", "Limits", "diff_model"]
