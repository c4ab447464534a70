"""A recording, asked of another device: what it answers otherwise, and from which operation on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

from nnhal.errors import NnhalError
from nnhal.recording import read_device_recording
from nnhal.remote import RemoteDevice
from nnhal.types import Model
from nnhal_frontends.imported import ImportedModel
from nnhal_tools.cases.asked_device import AskedDevice
from nnhal_tools.cases.case import Case, Verdict
from nnhal_tools.cases.recorded import RecordedCases
from nnhal_tools.cases.report import CaseReport
from nnhal_tools.cases.runner import CaseRunner, run_all
from nnhal_tools.diff.comparison import compare
from nnhal_tools.diff.device_side import DeviceSide
from nnhal_tools.diff.subject import Subject
from nnhal_tools.distance import Limits
from nnhal_tools.record.report import lacks
from nnhal_tools.up import RenewableDevice, opened_device

_CLIENT = "nnhal-replay"
_KEPT_MODELS = 16
"""Prepared models that wait for further executions."""


def replay_recording(path: Path, device: str, reference: str = "cpu_ref") -> CaseReport:
    """Make the calls of a recording again, and compare how they end.

    ``device`` and ``reference`` are drivers, which get processes of their own, or directories of running devices. The
    reference tells from which operation on values differ, unless it is empty.

    Raises OSError and DeviceRecordingError if the recording cannot be read, StartError if a device cannot be started,
    and TransportError if it does not answer.
    """
    with read_device_recording(path) as recording:
        report = CaseReport(f"{path} on {device}", "call", lacks(recording))
        with RenewableDevice(device, _CLIENT) as opened:
            runner = CaseRunner(AskedDevice(device, opened), kept_models=_KEPT_MODELS)
            run_all(RecordedCases(recording, report.left_out), [runner], report)
        # A device compared with itself would show nothing: the recorded one is the reference.
        name = recording.header.driver if device == reference else reference
        if reference:
            _locate(report, device, name, recording.header.driver or "whatever it was")
    return report


def _locate(report: CaseReport, device: str, name: str, recorded: str) -> None:
    """Say for each model whose values differ from which operation on."""
    with ExitStack() as stack:

        @cache
        def reference() -> RemoteDevice:
            return stack.enter_context(opened_device(name, _CLIENT))

        for number, case in report.wrong.values():
            with RenewableDevice(device, _CLIENT) as opened:
                origin = _origin(case, AskedDevice(device, opened), name, reference, recorded)
            report.found[number] = [replace(outcome, origin=origin) for outcome in report.found[number]]


def _origin(case: Case, device: AskedDevice, name: str, reference: Callable[[], RemoteDevice], recorded: str) -> str:
    """``device`` has run nothing yet."""
    (outcome,) = CaseRunner(device).run(replace(case, taken=None))
    if outcome.verdict == Verdict.PASSED:
        return f"no operation: by itself the call is right. {device.name} keeps something between runs"
    unknown, main = "from an unknown operation, since", case.model.main
    given = {index: array for index, array in zip(main.input_indexes, case.inputs, strict=True) if array is not None}
    if len(given) < len(case.inputs) or not all(array.size for array in given.values()):
        return f"{unknown} an input of the execution is empty"
    operands = tuple(
        operand.with_dimensions(given[number].shape) if number in given else operand
        for number, operand in enumerate(main.operands)
    )
    try:
        subject = Subject(_imported(replace(case.model, main=replace(main, operands=operands))))
        ref = DeviceSide(AskedDevice(name, reference()), reference, subject)
        dut = DeviceSide(device, reference, subject)
        report = compare(subject, ref, dut, [given], Limits(), lambda: ref).report("")
    except (NnhalError, ValueError) as error:
        return f"{unknown} they cannot be compared with {name}: {error}"
    first = report.first
    if first is None:
        return (
            f"no operation: {device.name} and {name} agree, and differ from the recording, so it is the recorded "
            f"device, {recorded}, that was wrong, or that computes otherwise"
        )
    made = {"made": "made there", "inherited": "inherited"}.get(first.origin, "")
    return f"from operation {first.number} ({first.kind}), by comparison with {name}: {made}, {'; '.join(first.over)}"


def _imported(model: Model) -> ImportedModel:
    """A model that comes from no file."""
    nodes: tuple[tuple[str, ...], ...] = tuple(() for _ in model.main.operations)
    return ImportedModel(model, (), (), nodes, (), tuple("" for _ in model.main.operands))
