"""Findings of a comparison, and their report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from math import isfinite
from typing import Any

from nnhal_pages.document import Figure
from nnhal_pages.explanation.marks import counted
from nnhal_pages.report import (
    Column,
    FigureCards,
    Folded,
    Footnotes,
    Mark,
    Medium,
    Name,
    PagePart,
    Picture,
    ReportTable,
    TerminalPart,
)
from nnhal_pages.text import shortened
from nnhal_tools.cases.case import SYNC_OVER_ASHMEM, CaseOutcome, Verdict
from nnhal_tools.cases.report import CaseReport
from nnhal_tools.diff.pictures import GRAPH, LayerBox, layer_graph, legend, level_of
from nnhal_tools.distance.figures import Figures

MADE, INHERITED, NOISE = "made", "inherited", "noise"
_SHOWN_STEPS, _SHOWN_REASONS, _SHOWN_DECLINED = 7, 8, 3
_NAME_WIDTH = 60


@dataclass(frozen=True, slots=True)
class LayerDiff:
    """A layer: how far its value is from the reference's."""

    number: int
    """The number of its last operation in the HAL model."""
    kind: str
    """The word of its last operation."""
    nodes: tuple[str, ...]
    """The user's nodes that it stands for."""
    value: str
    """The user's name of its result; of several results, of the one that is farthest off."""
    type: str
    """The operand type of the result."""
    dimensions: tuple[int, ...]
    operations: tuple[str, ...]
    """The words of all its operations."""
    fused: str
    """Why several operations count as one layer; empty if it is one."""
    runs_on: str
    """The device, or the helper that computes what the device declines."""
    sources: tuple[int, ...]
    """The layers whose values it reads, by their numbers."""
    error: Figures | None
    """Its distance with the inputs that it has in the model; None if that is not known, as ``problem`` says."""
    made: Figures | None
    """Its distance by itself, with the reference's inputs; None if it cannot run so, as ``made_problem`` says."""
    over: tuple[str, ...]
    """The limits that ``error`` exceeds, in words."""
    made_over: tuple[str, ...]
    """The limits that ``made`` exceeds."""
    growth_db: float | None
    """What it loses of the signal-to-noise ratio of the worst of its inputs; negative if it gains. None if the
    ratio of either is not known.
    """
    problem: str = ""
    made_problem: str = ""
    noise: tuple[str, ...] = ()
    """The limits that ``error`` exceeds by noise: the layer is right on the inputs that it has, and no layer before it
    makes an error. They are in ``over`` too if the user has given limits.
    """
    wrong_in_model: bool = False
    """Whether the layer is wrong on the inputs that it has in the model, though not by itself."""

    @property
    def title(self) -> str:
        """The user's names of the layer."""
        return " + ".join(self.nodes) or self.value

    @property
    def origin(self) -> str:
        """Source of an error over the limits: made here, inherited, or noise; empty if there is none."""
        if self.noise:
            return NOISE
        if not self.over:
            return ""
        return MADE if self.made_over or self.wrong_in_model or (self.made is None and not self.sources) else INHERITED

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {
            **asdict(self),
            "origin": self.origin,
            "error": _figures(self.error),
            "made": _figures(self.made),
        }


class DiffReport(CaseReport):
    """A model on two sides: its cases are layers."""

    def __init__(
        self,
        model: str,
        ref: str,
        dut: str,
        samples: int,
        layers: Sequence[LayerDiff],
        declined: dict[str, str],
        notes: Sequence[str] = (),
    ) -> None:
        """``layers`` are in the order in which they run. ``declined`` are operations that the device declines, by name,
        with the reasons if it gives any: the helper computes them.
        """
        super().__init__(f"{model}: {dut} against {ref}", "layer", notes)
        self.model, self.ref, self.dut, self.samples = model, ref, dut, samples
        self.layers, self.declined = tuple(layers), declined
        self.shows_all = False
        """Whether a terminal shows layers without any error too."""
        self.found = {layer.number: [self._outcome(layer)] for layer in layers}

    @property
    def over(self) -> tuple[LayerDiff, ...]:
        """The layers over a limit."""
        return tuple(layer for layer in self.layers if layer.over)

    @property
    def first(self) -> LayerDiff | None:
        """The first layer over a limit."""
        return next(iter(self.over), None)

    def as_dict(self) -> dict[str, Any]:
        return {
            **super().as_dict(),
            "model": self.model,
            "ref": self.ref,
            "dut": self.dut,
            "samples": self.samples,
            "first": None if self.first is None else self.first.number,
            "declined": self.declined,
            "layers": [layer.as_dict() for layer in self.layers],
        }

    def summary(self) -> str:
        """Say in a sentence where the two sides part."""
        first, sides = self.first, f"{self.dut} and {self.ref}"
        compared = [layer for layer in self.layers if layer.error is not None]
        if not compared:
            return f"nothing was compared: of {len(self.layers)} layers none has values on both sides, {sides}"
        if first is None:
            equal = sum(layer.error.is_equal for layer in compared if layer.error is not None)
            helped = sum(layer.runs_on != self.dut for layer in compared)
            noisy = sum(layer.origin == NOISE for layer in compared)
            agree = [f"{sides} agree in all {len(compared)} layers within the limits; {equal} have equal bits"]
            if noisy:
                agree.append(f"{noisy} differ by noise of the layers before, each of which is right on its inputs")
            if helped:
                agree.append(f"{helped} of them run on cpu_ref, since {self.dut} declines them")
            return "; ".join(agree)
        where = f"layer {first.number}, {first.kind} {shortened(first.title, _NAME_WIDTH)}"
        source = {
            MADE: "made there, though not by itself" if first.wrong_in_model else "made there",
            NOISE: "noise: each layer is right on its inputs",
        }.get(first.origin, "inherited from the layers before, each within the limits")
        made = sum(layer.origin == MADE for layer in self.over)
        over = f"{len(self.over)} of {len(self.layers)} layers are over the limits"
        words = f"{sides} part at {where}: {'; '.join(first.over)}; {source}"
        return f"{words}. {over}, {made} of them by an error of their own"

    def told(self) -> list[str]:
        """Return the notes, and a line for each reason for which the device declines operations."""
        found: dict[str, list[str]] = {}
        for name, reason in self.declined.items():
            found.setdefault(reason, []).append(name)
        lines = []
        for reason, names in list(found.items())[:_SHOWN_REASONS]:
            more = f" and {len(names) - _SHOWN_DECLINED} more" if len(names) > _SHOWN_DECLINED else ""
            shown = ", ".join(shortened(name, _NAME_WIDTH) for name in names[:_SHOWN_DECLINED])
            lines.append(f"{self.dut} declines {shown}{more}; cpu_ref computes it{f': {reason}' if reason else ''}")
        if len(found) > _SHOWN_REASONS:
            lines.append(f"it declines more for {len(found) - _SHOWN_REASONS} other reasons; --json has all")
        return [*lines, *self.notes]

    def parts(self) -> list[TerminalPart]:
        rows = [each for each in self.layers if self.shows_all or each.error is None or not each.error.is_equal]
        footnotes, equal = Footnotes(), len(self.layers) - len(rows)
        return [
            *([_layers(rows, footnotes)] if rows else []),
            *([f"{counted(equal, 'layer')} with equal bits; --all shows all"] if equal else []),
            footnotes,
            *self.told(),
            self.summary(),
        ]

    def sections(self) -> list[tuple[str, list[PagePart]]]:
        first, total = self.first, len(self.layers)
        equal = sum(layer.error is not None and layer.error.is_equal for layer in self.layers)
        made = sum(layer.origin == MADE for layer in self.over)
        cards = [
            Figure("Layers", f"{total}", f"{equal} with equal bits, on {counted(self.samples, 'sample')}"),
            Figure("Over the limits", f"{len(self.over)}", f"{made} by an error of their own"),
            Figure("First over", f"layer {first.number}" if first else "none", first.origin if first else ""),
        ]
        graph = layer_graph([_box(layer) for layer in self.layers])
        return [
            ("Summary", [FigureCards(cards), self.summary(), *self.told()]),
            ("Graph", [GRAPH, legend(), Picture("The layers", graph)]),
            ("Layers", [_layers(self.layers, Footnotes())]),
            ("Each layer", [_panel(layer) for layer in self.layers]),
        ]

    def sheet(self) -> str:
        return files("nnhal_tools.diff").joinpath("page.css").read_text()

    def _outcome(self, layer: LayerDiff) -> CaseOutcome:
        verdict = Verdict.FAILED if layer.over else Verdict.DECLINED if layer.error is None else Verdict.PASSED
        reason = "; ".join(layer.over) or layer.problem
        name = f"layer {layer.number}, {layer.title}"
        return CaseOutcome(name, self.model, layer.kind, layer.type, *SYNC_OVER_ASHMEM, verdict, reason, layer.origin)


def _layers(layers: Sequence[LayerDiff], footnotes: Footnotes) -> ReportTable[LayerDiff]:
    def figure(header: str, words: Callable[[Figures], str], missing: str = "") -> Column[LayerDiff]:
        return Column(header, lambda layer: words(layer.error) if layer.error else missing, number=True)

    def notes(layer: LayerDiff) -> str:
        return " ".join(map(footnotes.number, filter(None, (layer.fused, layer.problem, layer.made_problem))))

    def link(layer: LayerDiff) -> tuple[Mark, Name]:
        return Mark(f"{layer.number}", address=f"#layer-{layer.number}"), Name(layer.title)

    def steps(layer: LayerDiff) -> str:
        return _steps(layer.error) if layer.error else ""

    def growth(layer: LayerDiff) -> str:
        return "" if layer.growth_db is None else f"{round(layer.growth_db, 1) + 0.0:+.1f} dB"

    columns: list[Column[LayerDiff]] = [
        Column("layer", lambda layer: f"{layer.number}", number=True, only=Medium.TERMINAL),
        Column("layer", link, only=Medium.PAGE),
        Column("nodes", lambda layer: Name(layer.title), wraps=True, only=Medium.TERMINAL),
        Column("operation", lambda layer: " + ".join(layer.operations), wraps=True),
        Column("on", lambda layer: layer.runs_on, wraps=True),
        figure("differ", lambda error: f"{error.mismatching:,} of {error.elements:,}"),
        figure("largest", lambda error: f"{error.largest:.3g}"),
        figure("mean", lambda error: f"{error.mean:.3g}"),
        figure("SQNR", _sqnr, "not compared"),
        figure("cosine", lambda error: "" if error.cosine is None else f"{error.cosine:.6f}"),
        Column("growth", growth, number=True),
        Column("alone", lambda layer: _sqnr(layer.made) if layer.made else "", number=True),
        Column("steps", steps, wraps=True),
        Column("over", lambda layer: layer.origin, wraps=True),
        Column("note", notes, wraps=True, only=Medium.TERMINAL),
    ]
    caption = (
        "Each layer in the model, and alone on the reference's inputs. Growth is what it loses of the SQNR of its "
        "worst input."
    )
    title = "Each layer, in the model and alone on the reference's inputs"
    return ReportTable(title, columns, layers, "layers", caption)


def _sqnr(figures: Figures | None) -> str:
    """Say the signal-to-noise ratio."""
    if figures is None:
        return "not compared"
    if figures.is_equal:
        return "equal"
    if figures.sqnr is None:
        return "no signal" if figures.noise else "no numbers"
    return f"{figures.sqnr:.1f} dB"


def _steps(figures: Figures) -> str:
    """Say how many elements are how many steps off: ``-1: 12, +1: 40``. Empty for types without steps."""
    found = [(step, count) for step, count in figures.steps.items() if step]
    kept = sorted(sorted(found, key=lambda pair: -pair[1])[:_SHOWN_STEPS])
    more = [f"and {len(found) - len(kept)} more"] if len(found) > len(kept) else []
    return ", ".join([*(f"{step:+d}: {count:,}" for step, count in kept), *more])


def _box(layer: LayerDiff) -> LayerBox:
    told = f"{_sqnr(layer.error)}, {layer.origin}" if layer.origin else _sqnr(layer.error)
    more = (*layer.over, *([layer.fused] if layer.fused else []))
    return LayerBox(layer.number, layer.operations, layer.title, told, more, layer.sources, layer.error, layer.origin)


def _panel(layer: LayerDiff) -> Folded:
    title = (Mark(f"{layer.number}:"), Name(layer.title))
    more, place = f", {_sqnr(layer.error)}", f"layer-{layer.number}"
    return Folded(title, list(_details(layer)), more, place, level_of(layer.error))


def _details(layer: LayerDiff) -> Iterator[PagePart]:
    yield f"{layer.value}: {layer.type} {list(layer.dimensions)}"
    yield from dict.fromkeys(filter(None, (layer.fused, layer.problem, layer.made_problem, *layer.over)))
    yield from (f"alone: {words}" for words in layer.made_over)
    for name, figures in (("In the model", layer.error), ("Alone", layer.made)):
        if figures:
            yield (
                f"{name}: peak of the reference {figures.peak:.3g}, largest error {figures.largest:.3g}, at most "
                f"{figures.largest_step:,} steps or ULPs, {_sqnr(figures)}"
            )


def _figures(figures: Figures | None) -> dict[str, Any] | None:
    """Return figures for JSON, which has no infinities: those of squares of the largest float64 are null."""
    if figures is None:
        return None
    found = {**asdict(figures), "sqnr": figures.sqnr}
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in found.items()}
