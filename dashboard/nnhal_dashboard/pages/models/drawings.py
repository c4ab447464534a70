"""Drawings of plans, kept for a while: each link in it is of one address, so that is part of the key.

And what a device shows of a step: its memory over time, and what its units do.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from markupsafe import Markup

from nnhal.errors import NnhalError
from nnhal.v1 import admin_pb2
from nnhal_dashboard.monitoring.plans import KnownPlan, RunningPlan
from nnhal_dashboard.pages.models.plan_address import NEW, OLD, PlanAddress
from nnhal_pages.charts.arena import arena_charts
from nnhal_pages.charts.lanes import lanes_chart
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.comparison import comparison
from nnhal_pages.explanation.fragment import sums
from nnhal_pages.explanation.marks import legend
from nnhal_pages.explanation.panel import operation_panel, step_panel
from nnhal_pages.explanation.tables import EDGES, edge_table
from nnhal_pages.graph import PlanScopes, plan_graph
from nnhal_pages.operating.contacts import Contacts
from nnhal_pages.report import part_html
from nnhal_pages.svg import Drawing
from nnhal_pages.text import escaped

_KEPT = 24
_NARROW = 720
"""A graph of no more pixels than this leaves room beside it."""
_EDGES = 500
"""So many edges are listed."""


@lru_cache(_KEPT)
def scopes_of(plan: KnownPlan) -> PlanScopes:
    """Return the name scopes of a plan's operations."""
    return PlanScopes(plan.explanation)


@lru_cache(_KEPT)
def drawn_plan(plan: KnownPlan, address: PlanAddress) -> Drawing:
    """Return the graph of a plan. Raises ValueError and LookupError if the address does not fit it."""
    return plan_graph(plan.explanation, address.view(OLD, plan.explanation, scopes_of(plan)))


def is_narrow(plan: KnownPlan, address: PlanAddress) -> bool:
    """Return whether the graph of a plan leaves room beside it. Raises as ``drawn_plan`` does."""
    return drawn_plan(plan, replace(address, find="")).width <= _NARROW


def shown_plan(plan: KnownPlan, address: PlanAddress) -> Markup:
    """Return the devices of a plan, and its graph. Raises as ``drawn_plan`` does."""
    drawing = drawn_plan(plan, replace(address, find=""))
    return Markup(f"{legend(plan.explanation)}<div>{_scrolled(drawing, 'Graph of the plan')}</div>")


@lru_cache(_KEPT)
def drawn_comparison(old: KnownPlan, new: KnownPlan, titles: tuple[str, str], address: PlanAddress) -> Markup:
    """Return two plans side by side. Raises ValueError and LookupError if the address does not fit them."""
    views = address.view(OLD, old.explanation), address.view(NEW, new.explanation)
    return Markup(comparison(old.explanation, new.explanation, titles, views))


@lru_cache(_KEPT)
def drawn_facts(plan: KnownPlan) -> tuple[Markup, Markup, Markup]:
    """Return the figures of a plan as a whole, its edges, and its memory between steps."""
    shown = plan.explanation
    caption = EDGES
    if len(shown.edges) > _EDGES:
        caption += f" The first {_EDGES} of {len(shown.edges):,}; the file to download has all."
    arenas = arena_charts(shown.arena_values, [step.device for step in shown.steps], "arena")
    drawings = "".join(_scrolled(drawing, f"Arena {number}") for number, drawing in enumerate(arenas))
    return Markup(sums(shown)), Markup(part_html(edge_table(shown.edges[:_EDGES], caption))), Markup(drawings)


def drawn_choice(plan: KnownPlan, side: str, address: PlanAddress) -> tuple[str, Markup] | None:
    """Return a heading and what there is to say of the chosen operation or step of one plan, if one is chosen.

    Raises ValueError, and LookupError if the plan has none such.
    """
    shown = plan.explanation
    links = address.view(side, shown).links
    node, step = address.chosen(side, shown), address.chosen_step(side, shown)
    if node is not None:
        return f"Operation {node}", Markup(operation_panel(shown, node, links))
    if step is not None:
        return f"Step {step}", Markup(step_panel(shown, step, links))
    return None


def _scrolled(drawing: Drawing, name: str) -> str:
    return f"<div class='scroll graph-view' role='region' aria-label='{name}' tabindex='0'>{drawing.embedded()}</div>"


def step_figures(contacts: Contacts, running: RunningPlan, step: int) -> Markup:
    """Ask a step's device for its figures, and draw them; a sentence says why there are none."""
    handle = running.prepared_models[step] if step < len(running.prepared_models) else 0
    if not handle:
        return _note("This step has no prepared model on its device, so the device shows nothing of it.")
    device = running.plan.explanation.steps[step].device
    try:
        figures = contacts.device(device).figures(handle)
    except (NnhalError, LookupError) as error:
        return _note(f"The device does not show it: {error}")
    drawn = Markup("").join(_charts(figures))
    return (drawn or _note(f"{device} shows no memory or times of what it has prepared.")) + _note(
        "How long each operation takes is measured on demand: nnhal bench MODEL asks the device."
    )


def _charts(figures: admin_pb2.WorkloadFigures) -> list[Markup]:
    drawings = [
        *((memory.name, memory_chart(memory, f"memory-{n}")) for n, memory in enumerate(figures.memories)),
        *((times.name, lanes_chart(times, f"times-{n}")) for n, times in enumerate(figures.times)),
    ]
    return [
        Markup(
            f"<h3>{escaped(name)}</h3><div class='scroll' role='region' aria-label='{escaped(name)}' tabindex='0'>"
            f"{drawing.embedded()}</div>"
        )
        for name, drawing in drawings
    ]


def _note(text: str) -> Markup:
    return Markup(f"<p class='note'>{escaped(text)}</p>")
