"""Encoding of runs that have ended."""

from __future__ import annotations

from collections.abc import Iterator

from nnhal.codec.reports import copied_to_wire
from nnhal.v1.framework_admin_pb2 import FinishedRun
from nnhal_service.native.convert import report_to_wire
from nnhal_service.serving.history.ended_runs import EndedRun


def finished_to_wire(number: int, run: EndedRun, shift: int) -> FinishedRun:
    """Encode a run that has ended; ``shift`` turns instants of CLOCK_MONOTONIC into those of CLOCK_BOOTTIME."""
    timing = run.timing
    message = FinishedRun(
        number=number,
        model=run.model,
        version=run.version,
        client=run.client,
        request_id=run.request_id,
        arrived_ns=run.arrived_ns + shift,
        ended_ns=run.ended_ns + shift,
        batch_size=run.batch_size,
        devices=_devices_in(run.devices),
        copied_bytes=run.copied.total,
        copied=copied_to_wire(run.copied),
        fell_back=run.fell_back,
        error=run.error,
        recording=run.recording,
        trace_id=run.trace_id,
        report=None if run.report is None else report_to_wire(run.report),
    )
    if timing is not None:
        message.queue_ns = timing.input_started_ns - timing.queued_ns
        message.input_ns = timing.run_started_ns - timing.input_started_ns
        message.infer_ns = timing.run_ended_ns - timing.run_started_ns
        message.output_ns = timing.output_ended_ns - timing.run_ended_ns
    elif not run.error:
        message.infer_ns = run.ended_ns - run.arrived_ns
    return message


def _devices_in(text: str) -> Iterator[str]:
    """The names of devices in a list that may say how many operations each has."""
    for part in text.split(",") if text else ():
        name, _, count = part.rpartition(":")
        yield name if name and count.isdecimal() else part
