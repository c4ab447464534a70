"""The timeline of one run: a lane for the client, the framework and each device, with arrows for the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nnhal.v1 import framework_admin_pb2
from nnhal_pages.charts.frame import LINE, Frame, across_axis, fitted, room_for
from nnhal_pages.charts.looks import legend, work_looks
from nnhal_pages.charts.measures import NANOSECONDS
from nnhal_pages.charts.run_acts import CLIENT, FRAMEWORK, RunAct, RunPassing, run_acts, run_passings
from nnhal_pages.patterns import DeviceLane, patterns
from nnhal_pages.svg import Drawing, Scale, element, label, rounded, title
from nnhal_pages.text import shortened

_ROW, _BAR, _ABOVE = 36, 20, 8
"""The height of a row and of what is done in it, and the room above that."""
_NAME = 22
"""Characters of a lane's name."""


def run_chart(run: framework_admin_pb2.FinishedRun, name: str, width: int = 1100) -> Drawing:
    """Draw what is known of a run: with its report the steps, the copies and the values, else its stages only.

    ``name`` begins the ids of patterns: it is the chart's own on its page. A step is left out if its device does not
    report when it began. Steps of a device that overlap have lanes of their own.
    """
    acts = list(run_acts(run))
    looks = work_looks(act.kind for act in acts)
    key = legend(looks, name, 8, width - 8, 8)
    lanes = list(dict.fromkeys([CLIENT, FRAMEWORK, *(act.lane for act in acts)]))
    names = [shortened(lane, _NAME) for lane in lanes]
    top = key.height + 4
    frame = Frame(room_for(names), width - 16, top, top + len(lanes) * _ROW)
    begin, end = min(act.begin for act in acts), max(act.end for act in acts)
    across = Scale(begin, max(end, begin + 1), frame.left, frame.right)
    ground = _RunGround(across, {lane: top + number * _ROW + _ABOVE for number, lane in enumerate(lanes)}, name)
    parts = [
        patterns(name, looks.values()),
        key.content,
        across_axis(frame, across, NANOSECONDS.ticks(across, 8), has_grid=True),
    ]
    for lane, short in zip(lanes, names, strict=True):
        whole = title(lane) if short != lane else ""
        parts.append(element("g", whole + label(frame.left - 8, ground.tops[lane] + 14, short, "end")))
    parts += [ground.act(act, looks[act.kind]) for act in acts]
    parts += [ground.arrow(passing) for passing in run_passings(run)]
    took, steps = NANOSECONDS.words(run.ended_ns - run.arrived_ns), len(run.report.steps)
    summary = f"A run of {run.model} in {took}, {steps} {'step' if steps == 1 else 'steps'}"
    return Drawing(width, round(frame.bottom + 2 * LINE), summary, "".join(parts))


@dataclass(frozen=True, slots=True)
class _RunGround:
    """Ground on which acts are drawn."""

    across: Scale
    tops: dict[str, float]
    """The upper end of what is done in each lane."""
    name: str

    def act(self, act: RunAct, look: DeviceLane) -> str:
        left, right = self.across(act.begin), self.across(act.end)
        height = _BAR / 2 if act.is_part else _BAR
        y = self.tops[act.lane] + _BAR - height
        box = {"x": left, "y": y, "width": max(right - left, 1.0), "height": height}
        took = NANOSECONDS.words(act.end - act.begin)
        summary = title(f"{act.name}: {took}, from {NANOSECONDS.words(act.begin)} on")
        bar = element("rect", summary, class_=f"span {look.class_}", fill=look.fill(self.name), **box)
        words = [fitted(text, right - left - 10) for text in (f"{act.name}, {took}", act.name)]
        text = "" if act.is_part else next((each for each in words if each), "")
        return bar + (label((left + right) / 2, y + 14, text, "middle over") if text else "")

    def arrow(self, passing: RunPassing) -> str:
        """An arrow between lanes, or an arc above a lane."""
        x, end = self.across(passing.source.at), self.across(passing.target.at)
        start, goal = self.tops[passing.source.lane], self.tops[passing.target.lane]
        down = goal >= start
        tip = goal if down else goal + _BAR
        if start == goal:
            bends = (start - _ABOVE, start - _ABOVE)
        else:
            start += _BAR if down else 0
            bends = ((start + tip) / 2, (start + tip) / 2)
        curve = _points((x, start), (x, bends[0]), (end, bends[1]), (end, tip))
        path = f"M{curve[0]}C{' '.join(curve[1:])}"
        head = f"M{rounded(end - 4)} {rounded(tip - 7 if down else tip + 7)}h8L{curve[-1]}z"
        lines = element("path", class_="passed", d=path) + element("path", class_="passed-head", d=head)
        waited = f"handed over in {NANOSECONDS.words(passing.target.at - passing.source.at)}"
        look = "copied" if passing.copied else "in-place"
        return element("g", title(*passing.notes, waited) + lines, class_=look)


def _points(*places: tuple[float, float]) -> Sequence[str]:
    return [f"{rounded(x)} {rounded(y)}" for x, y in places]
