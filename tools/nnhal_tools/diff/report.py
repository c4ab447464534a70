"""Findings of a comparison."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

from nnhal_tools.distance.figures import Figures

MADE, INHERITED, NOISE = "made", "inherited", "noise"


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


@dataclass(frozen=True, slots=True)
class DiffReport:
    """A model on two sides."""

    model: str
    ref: str
    dut: str
    samples: int
    layers: tuple[LayerDiff, ...]
    """In the order in which they run."""
    declined: dict[str, str]
    """Operations that the device declines, by name, with the reasons if it gives any: the helper computes them."""
    notes: tuple[str, ...]

    @property
    def over(self) -> tuple[LayerDiff, ...]:
        """The layers over a limit."""
        return tuple(layer for layer in self.layers if layer.over)

    @property
    def first(self) -> LayerDiff | None:
        """The first layer over a limit."""
        return next(iter(self.over), None)

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "model": self.model,
            "ref": self.ref,
            "dut": self.dut,
            "samples": self.samples,
            "first": None if self.first is None else self.first.number,
            "declined": self.declined,
            "notes": list(self.notes),
            "layers": [layer.as_dict() for layer in self.layers],
        }


def _figures(figures: Figures | None) -> dict[str, Any] | None:
    """Return figures for JSON, which has no infinities: those of squares of the largest float64 are null."""
    if figures is None:
        return None
    found = {**asdict(figures), "sqnr": figures.sqnr}
    return {key: None if isinstance(value, float) and not isfinite(value) else value for key, value in found.items()}
