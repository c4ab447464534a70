"""What is drawn of plans, kept for a while: each link in it is of one address, so that is part of the key."""

from __future__ import annotations

from functools import lru_cache

from markupsafe import Markup

from nnhal_dashboard.pages.models.plan_address import NEW, OLD, PlanAddress
from nnhal_dashboard.world.plans import KnownPlan
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.comparison import comparison
from nnhal_pages.explanation.fragment import sums
from nnhal_pages.explanation.marks import legend
from nnhal_pages.explanation.panel import edge_table, operation_panel, step_panel
from nnhal_pages.graph import plan_graph
from nnhal_pages.svg import Drawing

_KEPT = 24
_EDGES = 500
"""So many edges are listed."""


@lru_cache(_KEPT)
def drawn_plan(plan: KnownPlan, address: PlanAddress) -> Markup:
    """Return the graph of a plan. Raises ValueError and LookupError if the address does not fit it."""
    told = plan.explanation
    return Markup(legend(told) + _scrolled(plan_graph(told, address.view(OLD, told)), "Graph of the plan"))


@lru_cache(_KEPT)
def drawn_comparison(old: KnownPlan, new: KnownPlan, titles: tuple[str, str], address: PlanAddress) -> Markup:
    """Return two plans side by side. Raises ValueError and LookupError if the address does not fit them."""
    views = address.view(OLD, old.explanation), address.view(NEW, new.explanation)
    return Markup(comparison(old.explanation, new.explanation, titles, views))


@lru_cache(_KEPT)
def drawn_facts(plan: KnownPlan) -> tuple[Markup, Markup, Markup]:
    """Return the figures of a plan as a whole, its edges, and its memory between steps."""
    told = plan.explanation
    caption = "How each value is passed on. The number after a device is its step."
    if len(told.edges) > _EDGES:
        caption += f" The first {_EDGES} of {len(told.edges):,}; the file to download has all."
    arenas = arena_charts(told.arena_values, [step.device for step in told.steps], "arena")
    drawings = "".join(_scrolled(drawing, f"Arena {number}") for number, drawing in enumerate(arenas))
    return Markup(sums(told)), Markup(edge_table(told.edges[:_EDGES], caption)), Markup(drawings)


def drawn_choice(plan: KnownPlan, side: str, address: PlanAddress) -> tuple[str, Markup] | None:
    """Return a heading and what there is to say of the chosen operation or step of one plan, if one is chosen.

    Raises ValueError, and LookupError if the plan has none such.
    """
    told = plan.explanation
    links = address.view(side, told).links
    node, step = address.chosen(side, told), address.chosen_step(side, told)
    if node is not None:
        return f"Operation {node}", Markup(operation_panel(told, node, links))
    if step is not None:
        return f"Step {step}", Markup(step_panel(told, step, links))
    return None


def _scrolled(drawing: Drawing, name: str) -> str:
    return f"<div class='scroll graph-view' role='region' aria-label='{name}' tabindex='0'>{drawing.embedded()}</div>"
