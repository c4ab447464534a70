"""What a device shows of a step: its memory over time, what its units do, its roofline."""

from __future__ import annotations

from markupsafe import Markup

from nnhal.errors import NnhalError
from nnhal.v1 import admin_pb2
from nnhal_dashboard.world.contacts import Contacts
from nnhal_dashboard.world.plans import RunningPlan
from nnhal_pages.charts.lanes import lanes_chart
from nnhal_pages.charts.memory import memory_chart
from nnhal_pages.charts.roofline import roofline_chart
from nnhal_pages.text import escaped


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
    return drawn or _note(f"{device} shows no memory, times or roofline of what it has prepared.")


def _charts(figures: admin_pb2.WorkloadFigures) -> list[Markup]:
    drawings = [
        *((memory.name, memory_chart(memory, f"memory-{n}")) for n, memory in enumerate(figures.memories)),
        *((times.name, lanes_chart(times, f"times-{n}")) for n, times in enumerate(figures.times)),
    ]
    if figures.HasField("roofline"):
        drawings.append(("Roofline", roofline_chart(figures.roofline)))
    return [
        Markup(
            f"<h3>{escaped(name)}</h3><div class='scroll' role='region' aria-label='{escaped(name)}' tabindex='0'>"
            f"{drawing.embedded()}</div>"
        )
        for name, drawing in drawings
    ]


def _note(text: str) -> Markup:
    return Markup(f"<p class='note'>{escaped(text)}</p>")
