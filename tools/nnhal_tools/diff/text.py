"""The figures of a comparison in words."""

from __future__ import annotations

from nnhal_pages.text import shortened
from nnhal_tools.diff.report import MADE, NOISE, DiffReport, LayerDiff
from nnhal_tools.distance.figures import Figures

_SHOWN_STEPS = 7
_NAME_WIDTH = 60
_SHOWN_REASONS = 8
_SHOWN_DECLINED = 3


def sqnr_words(figures: Figures | None) -> str:
    """Say the signal-to-noise ratio."""
    if figures is None:
        return "not compared"
    if figures.is_equal:
        return "equal"
    if figures.sqnr is None:
        return "no signal" if figures.noise else "no numbers"
    return f"{figures.sqnr:.1f} dB"


def number(value: float) -> str:
    """Say a distance."""
    return f"{value:.3g}"


def differ_words(figures: Figures) -> str:
    """Say how many elements are not equal."""
    return f"{figures.mismatching:,} of {figures.elements:,}"


def cosine_words(figures: Figures) -> str:
    """Say a cosine with the digits that tell it from 1."""
    return "" if figures.cosine is None else f"{figures.cosine:.6f}"


def steps_words(figures: Figures) -> str:
    """Say how many elements are how many steps off: ``-1: 12, +1: 40``. Empty for types without steps."""
    found = [(step, count) for step, count in figures.steps.items() if step]
    if len(found) > _SHOWN_STEPS:
        kept = sorted(sorted(found, key=lambda pair: -pair[1])[:_SHOWN_STEPS])
        return ", ".join(f"{step:+d}: {count:,}" for step, count in kept) + f", and {len(found) - len(kept)} more"
    return ", ".join(f"{step:+d}: {count:,}" for step, count in found)


def growth_words(layer: LayerDiff) -> str:
    """Say by how much the error grows: what a layer loses of the ratio of its worst input."""
    return "" if layer.growth_db is None else f"{round(layer.growth_db, 1) + 0.0:+.1f} dB"


def title_of(layer: LayerDiff) -> str:
    """Return the user's names of a layer."""
    return " + ".join(layer.nodes) or layer.value


def notes_of(report: DiffReport) -> list[str]:
    """Return what is said beside the verdict: what the device declines, and notes."""
    return [*_declined(report), *report.notes]


def _declined(report: DiffReport) -> list[str]:
    """Return a line for each reason."""
    found: dict[str, list[str]] = {}
    for name, reason in report.declined.items():
        found.setdefault(reason, []).append(name)
    lines = []
    for reason, names in list(found.items())[:_SHOWN_REASONS]:
        more = f" and {len(names) - _SHOWN_DECLINED} more" if len(names) > _SHOWN_DECLINED else ""
        shown = ", ".join(shortened(name, _NAME_WIDTH) for name in names[:_SHOWN_DECLINED])
        lines.append(f"{report.dut} declines {shown}{more}; cpu_ref computes it{f': {reason}' if reason else ''}")
    left = len(found) - _SHOWN_REASONS
    return [*lines, f"it declines more for {left} other reasons; --json has all"] if left > 0 else lines


def verdict(report: DiffReport) -> str:
    """Say in a sentence where the two sides part."""
    first, sides = report.first, f"{report.dut} and {report.ref}"
    compared = [layer for layer in report.layers if layer.error is not None]
    if not compared:
        return f"nothing was compared: of {len(report.layers)} layers none has values on both sides, {sides}"
    if first is None:
        equal = sum(layer.error.is_equal for layer in compared if layer.error is not None)
        helped = sum(layer.runs_on != report.dut for layer in compared)
        more = f"; {helped} of them run on cpu_ref, since {report.dut} declines them" if helped else ""
        noisy = sum(layer.origin == NOISE for layer in compared)
        noise = f"; {noisy} differ by noise of the layers before, each of which is right on its inputs" if noisy else ""
        agree = f"{sides} agree in all {len(compared)} layers within the limits; {equal} have equal bits"
        return f"{agree}{noise}{more}"
    where = f"layer {first.number}, {first.kind} {shortened(title_of(first), _NAME_WIDTH)}"
    source = {
        MADE: "made there, though not by itself" if first.wrong_in_model else "made there",
        NOISE: "noise: each layer is right on its inputs",
    }.get(first.origin, "inherited from the layers before, each within the limits")
    made = sum(layer.origin == MADE for layer in report.over)
    over = f"{len(report.over)} of {len(report.layers)} layers are over the limits"
    return (
        f"{sides} part at {where}: {'; '.join(first.over)}; {source}. {over}, {made} of them by an error of their own"
    )
