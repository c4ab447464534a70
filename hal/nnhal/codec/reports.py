"""Conversion of the reports of runs."""

from __future__ import annotations

from nnhal.codec.request import copies_from_wire, copies_to_wire
from nnhal.reports import CopiedBytes, LedgerEntry, StepReport
from nnhal.v1 import framework_admin_pb2
from nnhal.v1 import framework_pb2 as wire


def step_report_to_wire(report: StepReport) -> wire.StepReport:
    return wire.StepReport(
        device=report.device,
        duration_ns=report.duration_ns,
        time_on_device_ns=report.time_on_device_ns,
        time_in_driver_ns=report.time_in_driver_ns,
        copied_bytes=report.copied_bytes,
        copy_duration_ns=report.copy_duration_ns,
        step=report.step,
        started_ns=report.started_ns,
        ended_ns=report.ended_ns,
        copies=copies_to_wire(report.copies),
    )


def step_report_from_wire(message: wire.StepReport) -> StepReport:
    return StepReport(
        message.device,
        message.duration_ns,
        message.time_on_device_ns,
        message.time_in_driver_ns,
        message.copied_bytes,
        message.copy_duration_ns,
        message.step,
        message.started_ns,
        message.ended_ns,
        copies_from_wire(message.copies),
    )


def ledger_entry_to_wire(entry: LedgerEntry) -> wire.LedgerEntry:
    return wire.LedgerEntry(
        value=entry.value,
        source_step=entry.source_step,
        destination_step=entry.destination_step,
        source=entry.source,
        destination=entry.destination,
        strategy=entry.strategy,
        bytes=entry.bytes,
        copied_bytes=entry.copied_bytes,
        reason=entry.reason,
        wire_up_bytes=entry.wire_up_bytes,
        wire_down_bytes=entry.wire_down_bytes,
    )


def ledger_entry_from_wire(message: wire.LedgerEntry) -> LedgerEntry:
    return LedgerEntry(
        message.value,
        message.source_step,
        message.destination_step,
        message.source,
        message.destination,
        message.strategy,
        message.bytes,
        message.copied_bytes,
        message.reason,
        message.wire_up_bytes,
        message.wire_down_bytes,
    )


def copied_to_wire(copied: CopiedBytes) -> framework_admin_pb2.CopiedBytes:
    return framework_admin_pb2.CopiedBytes(between=copied.between, clients=copied.clients, staged=copied.staged)
