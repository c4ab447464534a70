"""Schedules: proposals with an address for each buffer."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_cascade.geometry.box import Shape
from nnhal_cascade.graph.cascader_graph import CascaderGraph
from nnhal_cascade.hardware.memory import System
from nnhal_cascade.plans.plan import Proposal


@dataclass(frozen=True, slots=True)
class TensorBuffer:
    """Place of an activation. Element [row, column, channel] is at [row mod rows, column mod columns, channel mod
    channels] of an array of ``extents``, row-major: a whole tensor is never wrapped, a rolling buffer is.
    """

    tensor: int
    region: str
    address: int
    extents: Shape
    """Elements."""
    element_bytes: int
    first: int
    """The plan before which it is allocated, as an index into the proposal's plans."""
    last: int
    """The plan after which it is free."""

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.extents.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class ConstantsBuffer:
    """Place of a part's constants during its plan, if they are copied to the working memory."""

    part: int
    region: str
    address: int
    bytes: int
    """The bytes of one slot."""
    slots: int
    """1 if resident, 2 if double buffered: slot n is at ``address + n * bytes``."""
    plan: int
    """The plan that uses it, as an index into the proposal's plans."""
    copied_in: int
    """The plan in which the first copy is issued: the plan itself, or the one before if the buffer is free there."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A proposal that is ready to run."""

    graph: CascaderGraph
    system: System
    proposal: Proposal
    reversed: tuple[bool, ...]
    """For each plan, whether it runs from the last stripe to the first. An output can then grow into the end of a dying
    input, and not into its start."""
    tensors: tuple[TensorBuffer, ...]
    constants: tuple[ConstantsBuffer, ...]
    peak: int
    """Bytes of the working memory: the end of the highest buffer."""
    spill_peak: int = 0
    """Bytes of the spill region."""
    cycles: int = 0
    """Modelled cycles of one run."""
