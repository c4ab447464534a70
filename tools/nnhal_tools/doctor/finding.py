"""The result of a check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """``FAIL`` means that nnhal cannot work, ``WARN`` that something may be surprising."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line. ``todo`` says what to do; it is empty if nothing needs to be done."""

    check: str
    status: Status
    message: str
    todo: str = ""


def ok(check: str, message: str) -> DoctorFinding:
    """A finding of status OK."""
    return DoctorFinding(check, Status.OK, message)


def warn(check: str, message: str, todo: str) -> DoctorFinding:
    """A finding of status WARN."""
    return DoctorFinding(check, Status.WARN, message, todo)


def fail(check: str, message: str, todo: str) -> DoctorFinding:
    """A finding of status FAIL."""
    return DoctorFinding(check, Status.FAIL, message, todo)
