"""Explanations of plans: where operations run and why not elsewhere, what edges cost, and the alternatives."""

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
