"""Sizes, times and stripes in words, the same in tables, on pages and in pictures."""

from __future__ import annotations

from collections.abc import Sequence

from nnhal_cascade.command.report import (
    BoundReport,
    BufferReport,
    CascadePlanReport,
    CascadeReport,
    FrontierPoint,
    PartReport,
)
from nnhal_pages.units import duration


def kibibytes(count: int) -> str:
    """Bytes in KiB, such as ``234.5 KiB``."""
    return f"{count / 1024:,.1f}".removesuffix(".0") + " KiB"


def size(count: int) -> str:
    """Bytes, exactly and in KiB."""
    return f"{count:,} bytes ({kibibytes(count)})"


def time(milliseconds: float) -> str:
    return duration(milliseconds * 1e6)


def short(number: int) -> str:
    """A large number in thousands or millions, such as ``7.33 M``."""
    if number < 10_000:
        return f"{number:,}"
    return f"{number / 1e6:.2f} M" if number >= 1_000_000 else f"{number / 1e3:.1f} k"


def per_cent(share: float) -> str:
    """A share that is added, such as ``+12.5 %``."""
    return f"+{share * 100:.1f} %"


def clock(hertz: int) -> str:
    """A clock in MHz."""
    return f"{hertz / 1e6:g} MHz"


def amounts(bytes_of: dict[str, int]) -> str:
    """Bytes by region, such as ``dram 200,704``."""
    return ", ".join(f"{name} {count:,}" for name, count in bytes_of.items()) or "none"


def numbers(plan: CascadePlanReport) -> str:
    """The parts of a plan: ``3``, or ``0-7``."""
    return span((plan.parts[0].part, plan.parts[-1].part))


def span(ends: tuple[int, int]) -> str:
    """Consecutive parts."""
    first, last = ends
    return str(first) if first == last else f"{first}-{last}"


def bound(report: CascadeReport) -> str:
    """Say the least that any schedule can do with, and how far this one is from it; empty if that is not known."""
    if report.bound is None:
        return ""
    return f"{size(report.bound.bytes)}: {report.bound.why}; the peak is {per_cent(report.bound.gap)}"


def least(count: int, parts: int | None, bound: BoundReport | None, where: str = "") -> str:
    """The least bytes that were found, with how far they were searched for, and what no schedule can do with less."""
    searched = "" if parts is None else f", with plans of up to {parts} parts"
    return (
        size(count) + (where and f", in {where}") + searched + ("" if bound is None else f"; bound {size(bound.bytes)}")
    )


def marks(point: FrontierPoint) -> str:
    """Return the marks that distinguish a point of the frontier."""
    return ", ".join(name for name, holds in (("chosen", point.chosen), ("knee", point.knee)) if holds)


def cascades(point: FrontierPoint) -> str:
    """The cascades of a point of the frontier."""
    found = ", ".join(map(span, point.cascades)) or "none"
    return f"{found}; {point.tiles} tiles" if point.tiles > 1 else found


def stripes(part: PartReport, plan: CascadePlanReport) -> str:
    """Say how a part is cut: ``whole``, ``112 of 1 row``, or ``7 tiles`` if these are not cut further."""
    if part.runs == plan.tiles:
        return "whole" if plan.tiles == 1 else f"{plan.tiles} tiles"
    return f"{part.runs} of {_elements(part.stripe, plan.along)}"


def cut(part: PartReport, plan: CascadePlanReport) -> str:
    """Say how a part is cut, as a phrase: ``in one piece``, or ``in 112 stripes of 1 row``."""
    if part.runs == plan.tiles:
        return "in one piece" if plan.tiles == 1 else f"in {plan.tiles} tiles"
    return f"in {part.runs} stripes of {_elements(part.stripe, plan.along)}"


def _elements(count: int, axis: str) -> str:
    return f"{count} {axis if count != 1 else axis.removesuffix('s')}"


def extent(buffer: BufferReport) -> str:
    """Say which elements of its tensor a buffer holds: ``whole``, or ``3 of 112 rows``."""
    if buffer.kind != "rolling":
        return buffer.kind
    axes = zip(("rows", "columns", "channels"), buffer.extents, buffer.shape, strict=True)
    return ", ".join(f"{held} of {all_of} {axis}" for axis, held, all_of in axes if held != all_of)


def brief(name: str) -> str:
    """The end of a name: converters write the path of scopes before it."""
    return "/".join(name.split("/")[-2:])


def shape(extents: Sequence[int]) -> str:
    """Extents as ``112 x 112 x 32``."""
    return " x ".join(map(str, extents))


def plan_name(plan: CascadePlanReport) -> str:
    """A plan with its parts, its tiles and its direction."""
    if len(plan.parts) == 1 and plan.tiles == 1:
        return numbers(plan)
    kind = f"cascade of {numbers(plan)}" if len(plan.parts) > 1 else numbers(plan)
    tiles = f", {plan.tiles} tiles of {shape(plan.tile)}" if plan.tiles > 1 else ""
    return kind + tiles


def cost(plan: CascadePlanReport) -> str:
    """Say what a plan takes: its memory, its cycles, and how many of them it waits."""
    waiting = f", {plan.waiting:,} of them waiting for copies" if plan.waiting else ""
    direction = ", from the last stripe to the first" if plan.reversed else ""
    return f"{size(plan.memory)}, {plan.cycles:,} cycles{waiting}{direction}"


def place(plan: CascadePlanReport) -> str:
    """A plan in a sentence: ``the cascade of 0-7``, or ``part 3 (CONV_2D a)``."""
    if len(plan.parts) > 1:
        return f"the {plan_name(plan)}"
    (part,) = plan.parts
    tiles = plan_name(plan).removeprefix(numbers(plan))
    return f"part {part.part} ({part.operation} {part.output}){tiles}"


def fit(report: CascadeReport) -> str:
    """Say if the peak fits the budget."""
    return f"fits {size(report.budget)}, {report.budget - report.planned.peak:,} to spare"


def made_of(report: CascadeReport) -> str:
    """Say which buffers lie in the working memory at the peak. Tensors may share bytes, so these can add up to more."""
    plan = report.peak_plan
    buffers = sorted(report.buffers_of(plan.plan), key=lambda each: each.bytes, reverse=True)
    rolling = [each for each in buffers if each.kind == "rolling"]
    weights = [each for each in buffers if each.kind == "weights"]
    found = [f"{each.name} {each.bytes:,}" for each in buffers if each.kind == "whole"]
    found += [f"{len(some)} {kind} {sum(each.bytes for each in some):,}" for kind, some in _kinds(rolling, weights)]
    shared = sum(each.bytes for each in buffers) - plan.memory
    if shared > 0:
        found.append(f"less {shared:,} that a dying input and an output share")
    elif shared < 0:
        found.append(f"{-shared:,} free below them")
    return f"in {place(plan)}: {', '.join(found)}"


def _kinds(rolling: list[BufferReport], weights: list[BufferReport]) -> list[tuple[str, list[BufferReport]]]:
    pairs = [("rolling buffers", rolling), ("buffers of weights", weights)]
    return [(kind.replace("buffers", "buffer", 1) if len(some) == 1 else kind, some) for kind, some in pairs if some]


def agreement(report: CascadeReport) -> str:
    """Compare what the device measured with what was planned."""
    planned, measured = report.planned, report.measured
    if measured is None:
        return "did not run"
    same = (planned.peak, planned.cycles) == (measured.peak, measured.cycles)
    return f"measured {measured.peak:,} bytes and {measured.cycles:,} cycles, " + (
        "as planned" if same else f"planned were {planned.peak:,} bytes and {planned.cycles:,} cycles"
    )
