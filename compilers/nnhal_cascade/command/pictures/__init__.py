"""The pictures of a schedule."""

from collections.abc import Sequence

from nnhal_cascade.command.pictures.cascades import cascade_drawing
from nnhal_cascade.command.pictures.frontier import frontier_drawing
from nnhal_cascade.command.pictures.memory import memory_drawing
from nnhal_cascade.command.report import CascadeReport
from nnhal_cascade.schedule.lives import TensorLife
from nnhal_cascade.schedule.replay import PlanReplay
from nnhal_pages.svg import Drawing


def drawings(report: CascadeReport, replays: Sequence[PlanReplay], lives: Sequence[TensorLife]) -> dict[str, Drawing]:
    """Return each picture by a name for its file: ``frontier``, ``memory``, and ``cascade_0_7`` for parts 0 to 7."""
    found = {"frontier": frontier_drawing(report)} if report.frontier else {}
    found["memory"] = memory_drawing(report, replays, lives)
    for plan in report.cascades:
        found[f"cascade_{plan.parts[0].part}_{plan.parts[-1].part}"] = cascade_drawing(report, plan)
    return found
