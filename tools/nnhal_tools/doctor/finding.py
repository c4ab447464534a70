"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """``FAIL`` is what nnhal cannot work with, ``WARN`` what may surprise."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line. ``todo`` says what to do, empty where there is nothing to be done."""

    check: str
    status: Status
    message: str
    todo: str = ""


def ok(check: str, message: str) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(check, Status.OK, message)


def warn(check: str, message: str, todo: str) -> DoctorFinding:
    """It works, with a surprise."""
    return DoctorFinding(check, Status.WARN, message, todo)


def fail(check: str, message: str, todo: str) -> DoctorFinding:
    """It does not work."""
    return DoctorFinding(check, Status.FAIL, message, todo)
