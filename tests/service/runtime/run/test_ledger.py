"""The ledger of a plan and of the copies that devices report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nnhal.reports import CLIENT_STEP, LedgerEntry, StepReport
from nnhal.types import Copy, ErrorStatus, TransferCosts
from nnhal_service.fallback import Side, values_of
from nnhal_service.fallback.edges import ASHMEM
from nnhal_service.runtime.run.ledger import UNPLANNED, ledger
from tests.service.three_steps import X, add_mul_tanh
from tests.support.picky import CPU, Bound, Loader, Picky, always

ANY = frozenset({"ashmem", "hardware_buffer_blob", "mmap_fd"})
BLOB = frozenset({"hardware_buffer_blob"})
SIDES = {"cpu": Side("cpu", ANY, ANY, 64), "npu": Side("npu", BLOB, BLOB, 64)}
SIZES = {0: 100, 1: 40, 2: 8}
NAMES = ["image", "middle", "operand 2"]


@dataclass(frozen=True)
class Stage:
    """A step: its device, and the operands that it reads and writes."""

    device: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


CHAIN = (Stage("npu", (0,), (1,)), Stage("cpu", (1,), (2,)))


def ran(number: int, device: str, copied: int = 0) -> StepReport:
    return StepReport(device, 1, 1, 1, copied, 1, number, 5, 6, (Copy(False, copied, 5, 6),) if copied else ())


def ledger_of(
    steps: Sequence[Stage],
    reports: Sequence[StepReport],
    lengths: Mapping[int, int] | None = None,
    sides: Mapping[str, Side] = SIDES,
) -> tuple[LedgerEntry, ...]:
    """Return the ledger of a run from operand 0 to operand 2."""
    values = values_of(steps, sides, frozenset({0}), frozenset({2}), SIZES.__getitem__, kind=ASHMEM)
    return ledger(values.values(), NAMES, [step.device for step in steps], sides, reports, lengths or {})


def test_each_use_of_a_value_has_an_entry() -> None:
    entries = ledger_of(CHAIN, [ran(0, "npu", 100), ran(1, "cpu")])
    image = "it lies in ashmem, and npu imports hardware_buffer_blob only"
    middle = "npu leaves it in hardware_buffer_blob, cpu imports that at multiples of 64"
    result = "cpu leaves it in ashmem, client imports that at multiples of 64"
    assert entries == (
        LedgerEntry("image", CLIENT_STEP, 0, "", "npu", "CopyToTarget", 100, 100, image),
        LedgerEntry("middle", 0, 1, "npu", "cpu", "ExportToTarget", 40, 0, middle),
        LedgerEntry("operand 2", 1, CLIENT_STEP, "cpu", "", "ExportToTarget", 8, 0, result),
    )


def test_an_unplanned_copy_has_a_separate_entry() -> None:
    *planned, more, less = ledger_of(CHAIN, [ran(0, "npu", 60), ran(1, "cpu", 7)])
    assert [entry.copied_bytes for entry in planned] == [100, 0, 0]
    assert (more.strategy, more.value, more.source_step, more.destination_step) == (UNPLANNED, "", 0, 0)
    assert more.copied_bytes == -40
    assert more.reason == (
        "npu reports 60 bytes copied in step 0, by plan 100 in and 0 out: it uses in place what the plan would copy"
    )
    assert (less.strategy, less.source, less.copied_bytes) == (UNPLANNED, "cpu", 7)
    assert less.reason.endswith("some of its arguments are not in memory that it can use in place")


def test_what_crosses_a_network_is_told_by_its_direction() -> None:
    costs = TransferCosts(is_wire=True)
    sides = {"cpu": SIDES["cpu"], "npu": Side("npu", frozenset(), frozenset(), costs=costs)}
    copies = (Copy(False, 100, 5, 6, True), Copy(True, 40, 5, 6, True))
    step = StepReport("npu", 1, 1, 1, 140, 1, 0, 5, 6, copies)
    entries = ledger_of(CHAIN, [step, ran(1, "cpu")], sides=sides)
    assert [(entry.wire_up_bytes, entry.wire_down_bytes) for entry in entries] == [(100, 0), (0, 40), (0, 0)]
    assert "npu takes its inputs over a network" in entries[0].reason
    assert "npu sends its results over a network" in entries[1].reason
    more = replace(step, copied_bytes=150, copies=(*copies, Copy(True, 10, 5, 6, True)))
    *_, unplanned = ledger_of(CHAIN, [more, ran(1, "cpu")], sides=sides)
    assert (unplanned.strategy, unplanned.wire_up_bytes, unplanned.wire_down_bytes) == (UNPLANNED, 0, 10)


def test_the_sum_always_equals_what_the_devices_report() -> None:
    for copied in [(100, 0), (0, 0), (60, 7), (500, 100)]:
        entries = ledger_of(CHAIN, [ran(0, "npu", copied[0]), ran(1, "cpu", copied[1])])
        assert sum(entry.copied_bytes for entry in entries) == sum(copied)


def test_a_fallback_device_has_its_own_edges() -> None:
    entries = ledger_of(CHAIN, [ran(0, "cpu"), ran(1, "cpu")])
    assert [(entry.source, entry.destination, entry.copied_bytes) for entry in entries] == [
        ("", "cpu", 0),
        ("cpu", "cpu", 0),
        ("cpu", "", 0),
    ]
    assert [entry.strategy for entry in entries] == ["ExportToTarget", "DirectCompatibility", "ExportToTarget"]


def test_sizes_unknown_to_the_plan_are_taken_from_the_memory() -> None:
    image, *_ = ledger_of(CHAIN, [ran(0, "npu", 300), ran(1, "cpu")], {0: 300})
    assert (image.bytes, image.copied_bytes) == (300, 300)


def test_a_step_in_a_loop_counts_for_each_run_and_one_in_a_skipped_branch_does_not_count() -> None:
    looped = ledger_of(CHAIN, [ran(0, "npu", 100), ran(0, "npu", 100), ran(1, "cpu")])
    assert [entry.copied_bytes for entry in looped] == [200, 0, 0]
    skipped = ledger_of(CHAIN, [ran(1, "cpu")])
    assert [entry.copied_bytes for entry in skipped] == [0, 0, 0]


def test_a_value_is_exported_once_for_all_its_readers() -> None:
    fork = (Stage("npu", (0,), (1, 2)), Stage("cpu", (2,), ()))
    entries = ledger_of(fork, [ran(0, "npu", 108), ran(1, "cpu")])
    assert [(entry.value, entry.copied_bytes) for entry in entries] == [
        ("image", 100),
        ("operand 2", 8),
        ("operand 2", 0),
    ]
    assert entries[-1].reason.endswith("which it copies once for all readers")


def test_a_device_copies_a_value_between_its_own_steps_if_it_cannot_import_the_memory() -> None:
    back = (Stage("npu", (0,), (2,)), Stage("npu", (2,), ()))
    *_, again, out = ledger_of(back, [ran(0, "npu", 108), ran(1, "npu", 8)])
    assert (again.source_step, again.destination_step, again.strategy) == (0, 1, "CopyToTarget")
    assert (again.copied_bytes, out.copied_bytes) == (16, 0)


def test_each_run_has_its_own_ledger(load: Loader, devices: list[Picky]) -> None:
    bound = Bound(load(add_mul_tanh()), [X], [2])
    planned = bound.run().ledger
    assert [entry.destination for entry in planned] == ["add", "mul", "mul", "tanh", ""]
    devices[1].fails = always()
    assert [entry.destination for entry in bound.run().ledger] == ["add", CPU, CPU, "tanh", ""]
    devices[1].fails = lambda: ErrorStatus.NONE
    assert bound.run().ledger == planned == bound.run().ledger
