"""The report of a compiled network: the object that ``nnhal cascade --json`` prints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Cost of one run, as planned or as measured."""

    peak: int
    """Bytes of the working memory."""
    cycles: int
    milliseconds: float
    """The cycles at the system's clock."""
    macs: int
    """Multiply-adds."""
    read: dict[str, int]
    """Bytes read from each region."""
    written: dict[str, int]
    """Bytes written to each region."""


@dataclass(frozen=True, slots=True)
class SystemReport:
    """The accelerator with its memories."""

    name: str
    accelerator: str
    clock_hz: int
    working: str
    """The region whose bytes the budget counts."""
    regions: tuple[dict[str, Any], ...]
    """Memory regions, each as ``MemoryRegion.as_table`` gives it."""


@dataclass(frozen=True, slots=True)
class BufferReport:
    """Bytes of a region that are used from one plan to another."""

    name: str
    """The tensor, or the part whose constants these are."""
    kind: str
    """``whole`` (a tensor), ``rolling`` (some of its rows), or ``weights``."""
    region: str
    address: int
    bytes: int
    extents: tuple[int, ...]
    """Rows, columns and channels that it holds at a time. For weights: slots, and bytes of a slot."""
    shape: tuple[int, ...]
    """Rows, columns and channels of the tensor; none for weights."""
    first: int
    """The first plan that uses it."""
    last: int
    """The last plan that uses it."""


@dataclass(frozen=True, slots=True)
class PartReport:
    """Operations that run as one."""

    part: int
    name: str
    operation: str
    """The HAL's name of the main operation."""
    inputs: tuple[str, ...]
    """The tensors that it reads."""
    output: str
    """The tensor that it writes."""
    shape: tuple[int, ...]
    """Rows, columns and channels of the output."""
    stripe: int
    """The extent of a stripe along the plan's axis, in elements of the output."""
    runs: int
    """Stripes that run, those of all tiles together."""
    weights: str
    """``none``, ``streamed``, ``resident`` or ``double buffered``."""
    weight_bytes: int
    """Bytes of all its constants."""
    cycles: int
    macs: int


@dataclass(frozen=True, slots=True)
class CascadePlanReport:
    """Parts that run together: a cascade if there is more than one."""

    plan: int
    parts: tuple[PartReport, ...]
    along: str
    """The axis of its stripes: ``rows``, ``columns`` or ``channels``."""
    tiles: int
    """How many tiles the output is cut into; what tiles share is computed again for each."""
    tile: tuple[int, ...]
    """Rows, columns and channels of the largest tile."""
    reversed: bool
    """Whether it runs from the last stripe to the first."""
    memory: int
    """Bytes: the end of the highest buffer while it runs."""
    cycles: int
    waiting: int
    """The cycles among these in which the NPU waits for constants that are copied."""
    macs: int
    read: dict[str, int]
    written: dict[str, int]


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """One of the best compromises between memory and time."""

    peak: int
    """Bytes."""
    cycles: int
    milliseconds: float
    overhead: float
    """Cycles over those of the fastest point, as a share: 0.1 is 10 %."""
    cascades: tuple[tuple[int, int], ...]
    """First and last part of each cascade."""
    tiles: int
    """Tiles of the cascade that has most; 1 if nothing is computed twice."""
    chosen: bool
    """Whether this is the schedule of the report."""
    knee: bool = False
    """Whether it has the least product of bytes and cycles: beyond it a byte less costs more than its share."""


@dataclass(frozen=True, slots=True)
class BoundReport:
    """Least memory and traffic of any schedule of the network."""

    bytes: int
    """Of the working memory."""
    why: str
    gap: float
    """The bytes of this schedule over it, as a share: 0.1 is 10 %."""


@dataclass(frozen=True, slots=True)
class LeastReport:
    """The smallest schedule that was found."""

    bytes: int
    """Of the working memory."""
    parts: int
    """The most parts that a plan had in the search for it."""
    bound: BoundReport | None
    """None if tensors need not lie in the working memory."""


@dataclass(frozen=True, slots=True)
class CrossingReport:
    """A tensor that lives between the steps of a network of which the NPU runs a part."""

    name: str
    bytes: int
    first: int
    """The step that writes it; 0 for an input of the network."""
    last: int
    """The last step that reads it; the last of all for an output of the network."""


@dataclass(frozen=True, slots=True)
class SharedStepReport:
    """A step of such a network, and what it takes of the working memory."""

    name: str
    is_npu: bool
    """Whether it is a subgraph on the NPU; else it is an operation of another device."""
    arena: int | None
    """Bytes of the subgraph's schedule, None if it does not fit; or of what the operation reads and writes."""
    across: int
    """Bytes of the tensors that live across it."""
    cycles: int | None
    """Those of the NPU."""

    @property
    def bytes(self) -> int:
        """Bytes that are taken while it runs."""
        return (self.arena or 0) + self.across


@dataclass(frozen=True, slots=True)
class SharedMemoryReport:
    """The working memory of all steps together, the NPU's and the others'."""

    budget: int
    """Bytes of the working memory."""
    peak: int
    """Bytes of the step that takes the most."""
    step: int
    """That step."""
    steps: tuple[SharedStepReport, ...]
    """In the order in which they run."""
    tensors: tuple[CrossingReport, ...]
    """What lives between them."""


@dataclass(frozen=True, slots=True)
class MisfitReport:
    """A network for which there is too little memory."""

    model: str
    system: SystemReport
    fits: bool
    """False."""
    budget: int
    """Bytes of the working memory."""
    least: int
    """Bytes of the smallest schedule of the kind that was asked for, as far as one was found."""
    where: str
    """The plan in which the smallest schedule has its peak."""
    least_with_recompute: int
    """Bytes of the smallest schedule that may compute values twice."""
    parts: int
    """The most parts that a plan had in the search for the smallest schedule."""
    bound: BoundReport | None = None
    """For the smallest schedule; None if tensors need not lie in the working memory."""
    bound_with_recompute: BoundReport | None = None
    """The same if values may be computed twice."""


@dataclass(frozen=True, slots=True)
class CascadeReport:
    """A compiled network."""

    model: str
    system: SystemReport
    fits: bool
    """True: what does not fit is a MisfitReport."""
    budget: int
    """Bytes of the working memory."""
    planned: RunFigures
    measured: RunFigures | None
    """By the device, if it ran."""
    spilled: dict[str, int]
    """Bytes of tensors that do not lie in the working memory, by region."""
    plans: tuple[CascadePlanReport, ...]
    buffers: tuple[BufferReport, ...]
    """By address."""
    frontier: tuple[FrontierPoint, ...]
    """From most memory to least; empty if it was not asked for."""
    bound: BoundReport | None = None
    """None if tensors need not lie in the working memory."""
    least: LeastReport | None = None
    """The smallest point of the frontier; None without one."""
    input: str = "resident"
    """``streamed`` if the client hands over the network's inputs as they are needed."""
    handed_over: int = 0
    """Bytes of inputs that it hands over in all: more than they have if values are computed twice."""
    together: SharedMemoryReport | None = None
    """What all steps take of the working memory, if the NPU runs only a part of the network."""

    @property
    def cascades(self) -> tuple[CascadePlanReport, ...]:
        """The plans of more than one part."""
        return tuple(plan for plan in self.plans if len(plan.parts) > 1)

    @property
    def peak_plan(self) -> CascadePlanReport:
        """The plan that needs the most memory; the first of several."""
        return max(self.plans, key=lambda plan: plan.memory)

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors, in the order in which they are first used."""
        found: dict[str, None] = {}
        for plan in self.plans:
            for part in plan.parts:
                found.update(dict.fromkeys((*part.inputs, part.output)))
        return tuple(found)

    def buffers_of(self, plan: int) -> tuple[BufferReport, ...]:
        """The buffers of the working memory that a plan finds or makes."""
        return tuple(
            each for each in self.buffers if each.first <= plan <= each.last and each.region == self.system.working
        )
