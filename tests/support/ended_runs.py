"""Runs that have ended, as the framework tells of them."""

from __future__ import annotations

from typing import Any

from nnhal.v1 import framework_admin_pb2

ARRIVED = 10**12
US = 1000


def ended_run(number: int, arrived_ns: int = ARRIVED, **fields: Any) -> framework_admin_pb2.FinishedRun:
    """Return a run of 1.9 ms that succeeded on a device npu; ``fields`` are those of the message."""
    given: dict[str, Any] = {
        "model": "digits",
        "version": "1",
        "client": "10.0.0.7:4123",
        "arrived_ns": arrived_ns,
        "ended_ns": arrived_ns + 1900 * US,
        "queue_ns": 120 * US,
        "input_ns": 40 * US,
        "infer_ns": 1500 * US,
        "output_ns": 90 * US,
        "batch_size": 1,
        "devices": ["npu"],
    }
    return framework_admin_pb2.FinishedRun(number=number, **given | fields)


def recorded_run(number: int, **fields: Any) -> framework_admin_pb2.FinishedRun:
    """Return such a run with its report: one step, to which a value was copied."""
    run = ended_run(number, **fields)
    began = run.arrived_ns + 160 * US
    run.report.started_ns, run.report.duration_ns = began, 1500 * US
    step = run.report.steps.add(
        step=0, device="npu", started_ns=began, ended_ns=began + 1400 * US, duration_ns=1450 * US, copied_bytes=256
    )
    step.copies.add(bytes=256, started_ns=began, ended_ns=began + 50 * US)
    run.report.ledger.add(
        value="image", source_step=-1, destination="npu", strategy="CopyToTarget", bytes=256, copied_bytes=256
    )
    return run
