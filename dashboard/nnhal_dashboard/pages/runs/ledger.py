"""Ways of the values of a run, beside what its plan says of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nnhal.reports import CLIENT_STEP
from nnhal.v1 import framework_pb2

_CLIENT = "client"


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One use of a value: planned, happened, or both."""

    value: str
    """Empty for what a device copied beyond the plan."""
    source: str
    """The step that wrote it, with its device; or the client."""
    destination: str
    """The step that read it."""
    planned: framework_pb2.EdgeExplanation | None
    happened: framework_pb2.LedgerEntry | None
    differences: tuple[str, ...]
    """How what happened differs from the plan, in words."""

    @property
    def reason(self) -> str:
        """Reason why it passed as it did."""
        known = self.happened or self.planned
        return known.reason if known is not None else ""


def compared(
    ledger: Sequence[framework_pb2.LedgerEntry], edges: Sequence[framework_pb2.EdgeExplanation], has_plan: bool = True
) -> list[LedgerRow]:
    """Return a row for each use of a value, those that happened first. Without a plan nothing differs from it."""
    planned: dict[tuple[str, int, int], list[framework_pb2.EdgeExplanation]] = {}
    for each in edges:
        planned.setdefault((each.value, each.source_step, each.destination_step), []).append(each)
    rows = []
    for entry in ledger:
        same = planned.get((entry.value, entry.source_step, entry.destination_step), [])
        edge = same.pop(0) if same else None
        rows.append(
            LedgerRow(
                entry.value,
                _end(entry.source_step, entry.source),
                _end(entry.destination_step, entry.destination),
                edge,
                entry,
                tuple(_differences(entry, edge)) if has_plan else (),
            )
        )
    for left in (each for same in planned.values() for each in same):
        ends = _end(left.source_step, left.source), _end(left.destination_step, left.destination)
        rows.append(LedgerRow(left.value, *ends, left, None, ("did not happen",) if ledger else ()))
    return rows


def _differences(entry: framework_pb2.LedgerEntry, edge: framework_pb2.EdgeExplanation | None) -> Iterable[str]:
    if edge is None:
        yield "less was copied than planned" if entry.copied_bytes < 0 else "not planned"
        return
    for is_source, step, planned, got in (
        (True, entry.source_step, edge.source, entry.source),
        (False, entry.destination_step, edge.destination, entry.destination),
    ):
        if step != CLIENT_STEP and planned != got:
            yield f"{'written' if is_source else 'read'} by {got} instead of {planned}"
    if entry.strategy != edge.strategy:
        yield f"{entry.strategy} instead of {edge.strategy}"
    # Sizes differ if the model was planned for another batch: what counts is how often the value was copied.
    elif entry.copied_bytes * edge.bytes != edge.copied_bytes * entry.bytes:
        yield f"{'more' if entry.copied_bytes * edge.bytes > edge.copied_bytes * entry.bytes else 'less'} was copied"


def _end(step: int, device: str) -> str:
    return _CLIENT if step == CLIENT_STEP else f"{device} (step {step})"
