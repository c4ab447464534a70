"""The graph of a plan: steps as boxes by device, which open into their operations."""

from nnhal_pages.graph.plan_graph import plan_graph
from nnhal_pages.graph.scopes import NameScope, PlanScopes
from nnhal_pages.graph.view import GraphView, PlanLinks, opened_from, opened_text

__all__ = ["GraphView", "NameScope", "PlanLinks", "PlanScopes", "opened_from", "opened_text", "plan_graph"]
