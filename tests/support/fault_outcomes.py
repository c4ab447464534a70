"""Faults of a device, and how its clients end: the framework, programs of NeuralNetworks.h, the client in C++."""

from __future__ import annotations

from typing import Any, NamedTuple

from nnhal.types import ErrorStatus
from tests.support.faulty import fault

RIGHT, FALLS_BACK, WRONG, UNMET = "right", "falls back", "wrong values", "not met"
FAILS = "refused at loading"
LATE = "MISSED_DEADLINE"


class FrameworkRow(NamedTuple):
    """A fault, and how runs of the three plans end."""

    fault: dict[str, Any]
    alone: str
    wired: str
    fences: str


def _row(alone: str, wired: str = "", fences: str = "", **fault: Any) -> FrameworkRow:
    return FrameworkRow(fault, alone, wired or alone, fences or wired or alone)


FRAMEWORK_ROWS = {
    **{
        f"error {status.name}": _row(FALLS_BACK, what="error", status=status.name)
        for status in ErrorStatus
        if status is not ErrorStatus.NONE
    },
    "delay": _row(RIGHT, what="delay", ms=5),
    "slow clock": _row(RIGHT, what="slow_clock", factor=3),
    "death in an execution": _row(FALLS_BACK, what="death"),
    "death in a preparation": _row(FAILS, what="death", exit=1, method="prepare"),
    "error of a preparation": _row(FAILS, what="error", method="prepare"),
    "a hang, with a deadline": _row(LATE, what="hang"),
    "a fence fails": _row(UNMET, UNMET, FALLS_BACK, what="fence"),
    "a fence never signals, with a deadline": _row(UNMET, UNMET, LATE, what="fence", outcome="never"),
    "an answer is dropped, with a deadline": _row(LATE, UNMET, UNMET, what="answer"),
    "an answer is late": _row(RIGHT, UNMET, UNMET, what="answer", outcome="late", ms=5),
    "wrong dimensions": _row(FALLS_BACK, UNMET, UNMET, what="shapes"),
    "wrong count of outputs": _row(FALLS_BACK, UNMET, UNMET, what="shapes", wrong="count"),
    "NaN": _row(WRONG, what="values", how="nan"),
    "saturated": _row(WRONG, what="values", how="saturated"),
    "NaN in a layer": _row(WRONG, what="values", how="nan", layer="tanh"),
    "memory is refused": _row(FALLS_BACK, what="memory"),
    "support is withdrawn": _row(FAILS, what="withdrawn"),
    "the compilation cache is damaged": _row(RIGHT, what="damaged_cache"),
}


class NdkRow(NamedTuple):
    """A fault, and what a client of the NDK's API gets that has named this device only: a result code, or values."""

    fault: dict[str, Any]
    unfenced: str
    fenced: str


def _ndk(unfenced: str, fenced: str = "", **fault: Any) -> NdkRow:
    return NdkRow(fault, unfenced, fenced or unfenced)


CODES = {
    "DEVICE_UNAVAILABLE": "UNAVAILABLE_DEVICE",
    "GENERAL_FAILURE": "OP_FAILED",
    "INVALID_ARGUMENT": "BAD_DATA",
}
"""The codes of statuses that have another name in the NDK."""
LATE_CODE = "MISSED_DEADLINE_TRANSIENT"
NDK_ROWS = {
    **{
        f"error {status.name}": _ndk(CODES.get(status.name, status.name), what="error", status=status.name)
        for status in ErrorStatus
        if status is not ErrorStatus.NONE
    },
    "delay": _ndk(RIGHT, what="delay", ms=5),
    "slow clock": _ndk(RIGHT, what="slow_clock", factor=3),
    "death in an execution": _ndk("UNAVAILABLE_DEVICE", what="death"),
    "error of a preparation": _ndk("OP_FAILED", what="error", method="prepare"),
    "a hang, with a deadline": _ndk(LATE_CODE, what="hang"),
    "a fence fails": _ndk(UNMET, "UNAVAILABLE_DEVICE", what="fence"),
    "a fence never signals, with a deadline": _ndk(UNMET, LATE_CODE, what="fence", outcome="never"),
    "an answer is dropped, with a deadline": _ndk(LATE_CODE, UNMET, what="answer"),
    "an answer is late": _ndk(RIGHT, UNMET, what="answer", outcome="late", ms=5),
    "wrong dimensions": _ndk("OP_FAILED", UNMET, what="shapes"),
    "wrong count of outputs": _ndk("OP_FAILED", UNMET, what="shapes", wrong="count"),
    "NaN": _ndk(WRONG, what="values", how="nan"),
    "NaN in a layer": _ndk(WRONG, what="values", how="nan", layer="FLOOR"),
    "memory is refused": _ndk("OP_FAILED", what="memory"),
    "support is withdrawn": _ndk("BAD_DATA", what="withdrawn"),
    "the compilation cache is damaged": _ndk(RIGHT, what="damaged_cache"),
}


class CppRow(NamedTuple):
    """A fault of a device, and how the program ends."""

    fault: dict[str, Any]
    sums: str
    """What it prints: the sums of three executions, as far as it gets."""
    error: str
    """Its last words; none if all is well."""


_CALL, _BURST, _FENCED = "PreparedModel.ExecuteSynchronously", "Channel.Burst", "PreparedModel.ExecuteFenced"
SUMS = "3, 7, 11"


def _refused(method: str) -> str:
    return f"{method.replace('.', 'Service/')} failed: GENERAL_FAILURE: injected fault 'it'"


CPP_ROWS = {
    "error of a call": CppRow(fault("error", _CALL), "", _refused(_CALL)),
    "error in a burst": CppRow(fault("error", _BURST), "3", "the burst failed: GENERAL_FAILURE: injected fault 'it'"),
    "error of a launch": CppRow(fault("error", _FENCED), "3, 7", _refused(_FENCED)),
    "error of a preparation": CppRow(
        fault("error", "prepare"), "", "preparing failed: GENERAL_FAILURE: injected fault 'it'"
    ),
    "delay": CppRow(fault("delay", ms=2), SUMS, ""),
    "slow clock": CppRow(fault("slow_clock", factor=2), SUMS, ""),
    "a call hangs": CppRow(fault("hang", _CALL), "", "nothing for 1 s"),
    "a burst hangs": CppRow(fault("hang", _BURST), "3", "no answer on a channel: nothing for 1 s"),
    "death in a call": CppRow(fault("death", _CALL), "", "has closed the connection"),
    "death in a burst": CppRow(fault("death", _BURST), "3", "the other side has closed a channel"),
    "a fence fails": CppRow(fault("fence", _FENCED), "3, 7", "a fence is in error"),
    "a fence never signals": CppRow(
        fault("fence", _FENCED, outcome="never"), "3, 7", "a fence has not signalled in time"
    ),
    "an answer is dropped": CppRow(fault("answer", _BURST), "3", "no answer on a channel: nothing for 1 s"),
    "an answer is late": CppRow(fault("answer", _BURST, outcome="late", ms=5), SUMS, ""),
    "wrong dimensions": CppRow(fault("shapes"), SUMS, ""),
    "wrong count of outputs": CppRow(fault("shapes", wrong="count"), SUMS, ""),
    "NaN": CppRow(fault("values", how="nan"), "nan, nan, nan", ""),
    "NaN in a layer": CppRow(fault("values", how="nan", layer="ADD"), "nan, nan, nan", ""),
    "memory is refused": CppRow(fault("memory", "*"), "", _refused(_CALL)),
    "support is withdrawn": CppRow(
        fault("withdrawn", "*"),
        "",
        "preparing failed: INVALID_ARGUMENT: operation 0 (ADD) is not supported by cpu_ref: NO_IMPL: got ADD, "
        "allowed others, by injected fault 'it'",
    ),
}
