"""The story of a plan: where each operation runs and why nowhere else, what each edge costs, and what else was open."""

from nnhal_client.explanation import (
    Counterfactual,
    DeviceStory,
    EdgeStory,
    Explanation,
    Measured,
    OperationStory,
    StepStory,
    explanation_from_wire,
)
from nnhal_tools.explain.fragment import fragment, style
from nnhal_tools.explain.page import page
from nnhal_tools.explain.tables import show, show_ledger

__all__ = [
    "Counterfactual",
    "DeviceStory",
    "EdgeStory",
    "Explanation",
    "Measured",
    "OperationStory",
    "StepStory",
    "explanation_from_wire",
    "fragment",
    "page",
    "show",
    "show_ledger",
    "style",
]
