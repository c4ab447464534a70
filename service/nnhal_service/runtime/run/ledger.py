"""The copy ledger of a run: how each value was passed, as planned and as the devices report it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from nnhal.injected import injected_fault
from nnhal.reports import CLIENT_STEP, LedgerEntry, StepReport, wire_bytes_of
from nnhal_service.fallback import CLIENT, Edge, PassedValue, PassedValues, Side, connect
from nnhal_service.partition import Plan, whole
from nnhal_service.runtime.plan.prepared_plan import PreparedPlan
from nnhal_service.runtime.plan.sketch import passed_values
from nnhal_service.runtime.run.reports import InjectedFailure

UNPLANNED = "Unplanned"
"""The strategy of an entry for bytes that a device copied beyond the plan."""
INJECTED = "Injected"
"""The strategy of an entry for a fault that was injected on purpose."""


class Ledgers:
    """The ledgers of one context's runs, which mostly copy the same: the last one is kept. For one run at a time."""

    def __init__(self) -> None:
        self._known: tuple[object, ...] = ()
        self._last: tuple[LedgerEntry, ...] = ()

    def of(
        self,
        prepared: PreparedPlan,
        values: PassedValues,
        lengths: Mapping[int, int],
        reports: Sequence[StepReport],
        as_one: bool,
        failures: Sequence[InjectedFailure] = (),
    ) -> tuple[LedgerEntry, ...]:
        """Return what ``ledger_of`` does, and an entry for each of the ``failures``."""
        copied = [
            (report.step, report.device, report.copied_bytes, report.copies and _noted(report)) for report in reports
        ]
        known = (prepared, lengths, copied, as_one)
        if known != self._known:
            self._last = ledger_of(prepared, values, lengths, reports, as_one)
            self._known = known
        return (*self._last, *map(_of_failure, failures)) if failures else self._last


def ledger_of(
    prepared: PreparedPlan,
    values: PassedValues,
    lengths: Mapping[int, int],
    reports: Sequence[StepReport],
    as_one: bool = False,
) -> tuple[LedgerEntry, ...]:
    """The ledger of one run of a plan, in which ``values`` pass as they were bound.

    ``lengths`` are the known sizes of the values in bytes, by operand. ``as_one`` says that the whole model ran as one
    step.
    """
    plan = prepared.plan
    if as_one:
        model = prepared.imported.model
        plan = Plan((whole(model, reports[0].device),))
        kind = prepared.client_memory.kind
        values = passed_values(model, plan, prepared.sides, prepared.dimensions, prepared.element_sizes, kind)
    return ledger(
        values.values(),
        prepared.survey.value_names,
        [step.device for step in plan.steps],
        prepared.sides,
        reports,
        lengths,
    )


def ledger(
    values: Iterable[PassedValue],
    names: Sequence[str],
    planned: Sequence[str],
    sides: Mapping[str, Side],
    reports: Sequence[StepReport],
    lengths: Mapping[int, int],
) -> tuple[LedgerEntry, ...]:
    """An entry for each use of a value, and one for each step whose device copied more or fewer bytes than planned.

    ``names`` are the operands' names, ``planned`` the devices of the steps, ``sides`` all devices, ``lengths`` the
    bytes of the memory that operands were bound to. Edges connect the devices that really ran the steps.
    """
    ran = Counter(report.step for report in reports)
    devices = [*planned]
    for report in reports:
        devices[report.step] = report.device
    entries: list[LedgerEntry] = []
    foreseen: Counter[tuple[int | None, bool]] = Counter()
    sent_up, sent_down = Counter[int | None](), Counter[int | None]()
    for value in values:
        size = lengths.get(value.operand, 0) or value.size
        name = names[value.operand]
        for destination, edge in zip(value.destinations, _edges(value, size, devices, sides), strict=True):
            written, read = _times(value.writer, ran), _times(destination, ran)
            copied_out, copied_in = edge.copied_out * written, edge.copied_in * read
            up, down = edge.wire_up_bytes * read, edge.wire_down_bytes * written
            foreseen[value.writer, True] += copied_out
            foreseen[destination, False] += copied_in
            sent_up[destination] += up
            sent_down[value.writer] += down
            entries.append(
                LedgerEntry(
                    name,
                    CLIENT_STEP if value.writer is None else value.writer,
                    CLIENT_STEP if destination is None else destination,
                    "" if value.writer is None else edge.source,
                    "" if destination is None else edge.destination,
                    edge.strategy.value,
                    size,
                    copied_out + copied_in,
                    edge.reason + value.note,
                    up,
                    down,
                )
            )
    return (*entries, *_unplanned(foreseen, sent_up, sent_down, devices, reports), *_injected(reports))


def _noted(report: StepReport) -> tuple[object, ...]:
    """Return what copies tell of a step beside their bytes."""
    return (*wire_bytes_of(report.copies), *(copy.injected for copy in report.copies))


def _injected(reports: Sequence[StepReport]) -> Iterator[LedgerEntry]:
    """An entry of no bytes for each fault that a device was told to have."""
    for report in reports:
        step, device = report.step, report.device
        for copy in report.copies:
            if copy.injected:
                reason = f"{device} had the {injected_fault(copy.injected)} in step {step}"
                yield LedgerEntry("", step, step, device, device, INJECTED, 0, 0, reason)


def _of_failure(failure: InjectedFailure) -> LedgerEntry:
    """An entry of no bytes for an injected fault for which a step was run elsewhere, or again."""
    fault, step, device = failure
    what = f"had the {injected_fault(fault)}"
    reason = (
        f"{device} {what} in step {step}, which failed by it" if device else f"a device {what}, by which a step failed"
    )
    return LedgerEntry("", step, step, device, device, INJECTED, 0, 0, reason)


def _times(step: int | None, ran: Mapping[int, int]) -> int:
    """Return how often a step ran: never in a branch that was not taken, several times in a loop."""
    return 0 if step is None else ran.get(step, 0)


def _edges(value: PassedValue, size: int, devices: Sequence[str], sides: Mapping[str, Side]) -> list[Edge]:
    def side(step: int | None) -> Side:
        return CLIENT if step is None else sides[devices[step]]

    return connect(side(value.writer), [side(step) for step in value.destinations], size, (value.kind,))


def _unplanned(
    foreseen: Mapping[tuple[int | None, bool], int],
    sent_up: Mapping[int | None, int],
    sent_down: Mapping[int | None, int],
    devices: Sequence[str],
    reports: Sequence[StepReport],
) -> Iterator[LedgerEntry]:
    copied, up, down = Counter[int](), Counter[int](), Counter[int]()
    for report in reports:
        copied[report.step] += report.copied_bytes
        sent = wire_bytes_of(report.copies)
        up[report.step] += sent.up
        down[report.step] += sent.down
    for step in sorted(copied):
        copied_in, copied_out = foreseen.get((step, False), 0), foreseen.get((step, True), 0)
        difference = copied[step] - copied_in - copied_out
        if difference:
            device = devices[step]
            found = (
                "some of its arguments are not in memory that it can use in place"
                if difference > 0
                else "it uses in place what the plan would copy"
            )
            reason = (
                f"{device} reports {copied[step]} bytes copied in step {step}, by plan {copied_in} in and {copied_out} "
                f"out: {found}"
            )
            yield LedgerEntry(
                "",
                step,
                step,
                device,
                device,
                UNPLANNED,
                0,
                difference,
                reason,
                up[step] - sent_up.get(step, 0),
                down[step] - sent_down.get(step, 0),
            )
