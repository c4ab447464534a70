"""From a model and what devices support to a plan: pure functions over an immutable model."""

from nnhal_service.partition.assign import Candidate, Pin, PlacementError, assign
from nnhal_service.partition.plan import Plan, Step
from nnhal_service.partition.split import split

__all__ = ["Candidate", "Pin", "PlacementError", "Plan", "Step", "assign", "split"]
