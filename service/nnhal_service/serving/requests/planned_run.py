"""Devices that run a model by its plan, and the cost of its values on their way between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nnhal.reports import CopiedBytes, copied_by
from nnhal_service.fallback import CLIENT, Edge, PassedValue, Side, connect
from nnhal_service.fallback.edges import ASHMEM
from nnhal_service.runtime import PreparedPlan, RunReport
from nnhal_service.serving.requests.request import Parameter


class PlannedEdge(NamedTuple):
    """A value's way from the device that writes it to one that reads it."""

    source: str
    """The device that writes it; empty for the client."""
    destination: str
    """The device that reads it; empty for the client."""
    strategy: str
    bytes: int
    copied_bytes: int

    @property
    def is_between(self) -> bool:
        return bool(self.source and self.destination)


class PlannedRun(NamedTuple):
    """Devices and bytes of a run by its plan."""

    operations: Sequence[tuple[str, int]]
    """The device of each step, and how many operations the step has."""
    devices: str
    """All operations by device, such as ``cpu_acc:3,cpu_ref:1``."""
    steps: tuple[str, ...]
    """The device of each step; empty if control flow decides which steps run."""
    edges: tuple[PlannedEdge, ...]
    """The edges of a run."""
    copied: CopiedBytes
    """What devices copy in a run."""
    wire_bytes: int = 0
    """Those of these bytes that go over networks, to devices on other hosts and from them."""

    @classmethod
    def of(cls, prepared: PreparedPlan, kinds: Mapping[int, str], sizes: Mapping[int, int]) -> PlannedRun:
        """Return what a run does by a plan, in memory as ``planned_edges`` has it."""
        operations = [(step.device, len(step.operations)) for step in prepared.plan.steps]
        uses = list(_uses(prepared, kinds, sizes))
        sent = sum(edge.wire_up_bytes + edge.wire_down_bytes for _, edge in uses)
        edges = tuple(planned for planned, _ in uses)
        return cls(operations, _counted(operations), planned_steps(prepared), edges, copied_by(edges), sent)

    def copied_in(self, report: RunReport, by_hand: int = 0) -> CopiedBytes:
        """Return what was copied in a run: by its ledger, or by plan unless it measured.

        ``by_hand`` is how many bytes of requests and responses were copied into the run's memory and out of it.
        """
        copied = copied_by(report.ledger) if report.steps else self.copied
        return copied._replace(clients=copied.clients + by_hand) if by_hand else copied

    def devices_of(self, report: RunReport) -> str:
        """All operations by the devices that ran them in a run that was measured."""
        places = {step.step: step.device for step in report.steps}
        if report.fell_back and len(places) == 1:  # the whole model ran as one step
            places = dict.fromkeys(range(len(self.operations)), *places.values())
        return _counted((device, self.operations[number][1]) for number, device in places.items())


class RunAccount(NamedTuple):
    """What a run has done: the same for all runs of an instance that went by the same plan and were not measured."""

    planned: PlannedRun
    """What it did by its plan."""
    copied: CopiedBytes
    """What was copied into the instance's memory, out of it, and by devices."""
    devices: str
    """All operations by the devices that ran them; empty if that is unknown."""
    parameters: Mapping[str, Parameter]
    """What responses say of it."""
    by_hand: int
    """The bytes of requests and responses that were copied into the instance's memory and out of it."""

    @classmethod
    def of(cls, planned: PlannedRun, report: RunReport, by_hand: int) -> RunAccount:
        """Return the account of a run by a plan. ``by_hand`` is as the field."""
        copied = planned.copied_in(report, by_hand)
        if report.fell_back and not report.steps:  # it was not measured: the devices and the bytes are unknown
            return cls(planned, copied, "", {"nnhal_fell_back": True}, by_hand)
        devices = planned.devices_of(report) if report.steps else planned.devices
        parameters: dict[str, Parameter] = {"nnhal_devices": devices, "nnhal_bytes_copied": copied.total}
        if planned.wire_bytes:
            parameters["nnhal_bytes_on_wire"] = _wire_bytes(report) if report.steps else planned.wire_bytes
        parameters["nnhal_fell_back"] = report.fell_back
        return cls(planned, copied, devices, parameters, by_hand)


def _wire_bytes(report: RunReport) -> int:
    """The bytes of a run that was measured which went over networks."""
    return sum(copy.bytes for step in report.steps for copy in step.copies if copy.is_wire)


def planned_steps(prepared: PreparedPlan) -> tuple[str, ...]:
    """The device of each step of a plan; empty if control flow decides which steps run."""
    return () if prepared.plan.walk is not None else tuple(step.device for step in prepared.plan.steps)


def planned_edges(
    prepared: PreparedPlan, kinds: Mapping[int, str], sizes: Mapping[int, int]
) -> tuple[PlannedEdge, ...]:
    """An edge for each use of a value.

    ``kinds`` and ``sizes`` are the kinds of memory that the model's inputs and outputs lie in, ashmem if it is not
    said, and their bytes, by operand.
    """
    return tuple(planned for planned, _ in _uses(prepared, kinds, sizes))


def _uses(
    prepared: PreparedPlan, kinds: Mapping[int, str], sizes: Mapping[int, int]
) -> Iterator[tuple[PlannedEdge, Edge]]:
    """Yield what ``planned_edges`` returns, with the edges of the fallback."""

    def name(step: int | None) -> str:
        return "" if step is None else prepared.plan.steps[step].device

    for value in prepared.values.values():
        size = value.size or sizes.get(value.operand, 0)
        kind = value.kind if value.is_ours else kinds.get(value.operand, ASHMEM)
        edges = _edges_of(prepared, value, size, kind)
        for reader, edge in zip(value.destinations, edges, strict=True):
            strategy = edge.strategy.value
            yield PlannedEdge(name(value.writer), name(reader), strategy, size, edge.copied_bytes), edge


def copies_nothing(prepared: PreparedPlan, operand: int, kind: str) -> bool:
    """Return whether the steps use an input or output of the model in place if it lies in a ``kind`` of memory."""
    value = prepared.values.get(operand)
    if value is None or prepared.plan.walk is not None or (value.writer is None and None in value.destinations):
        return False
    return not any(edge.copied_bytes for edge in _edges_of(prepared, value, 1, kind))


def _edges_of(prepared: PreparedPlan, value: PassedValue, size: int, kind: str) -> list[Edge]:
    def side(step: int | None) -> Side:
        return CLIENT if step is None else prepared.sides[prepared.plan.steps[step].device]

    return connect(side(value.writer), [side(step) for step in value.destinations], size, (kind,))


def _counted(operations: Iterable[tuple[str, int]]) -> str:
    """Operations by device, in the order of the devices' first steps."""
    counts: Counter[str] = Counter()
    for device, count in operations:
        counts[device] += count
    return ",".join(f"{device}:{count}" for device, count in counts.items())
