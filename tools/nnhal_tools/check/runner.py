"""Making checks of a device, one after another, whatever becomes of it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import DecodeError

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.v1 import device_pb2
from nnhal_tools.check.check import Check, NotOfferedError
from nnhal_tools.check.checked_device import CheckedDevice, Known
from nnhal_tools.check.session import CheckSession

_RETURN_SECONDS = 10.0
"""How long to wait for a device that has ended or does not answer: what supervises it may start it again."""
_POLL_SECONDS = 0.1


class CheckVerdict(StrEnum):
    """End of a check. Not asked: the device did not come back after an earlier check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Result of one check."""

    check: Check
    """The check."""
    verdict: CheckVerdict
    """How it ended."""
    seconds: float
    """How long it took."""
    words: str = ""
    """What was got and what was expected, or what follows from what is not offered; empty if it passed."""


def run_checks(
    endpoint: Endpoint, checks: Sequence[Check], seconds: float, back_seconds: float = _RETURN_SECONDS
) -> Iterator[CheckResult]:
    """Make checks whose answers may each take ``seconds``.

    If the device ends or falls silent, the check has failed; the next ones are made if it serves again. Raises
    DeadObjectError or TransportError before the first one if it cannot be asked at all.
    """
    require_served(endpoint, seconds)
    known, gone = Known(), ""
    for each in checks:
        if gone:
            yield CheckResult(each, CheckVerdict.NOT_ASKED, 0.0, gone)
            continue
        began = time.monotonic()
        verdict, words = _ask(each, endpoint, seconds, known)
        yield CheckResult(each, verdict, time.monotonic() - began, words)
        if verdict is CheckVerdict.FAILED and not _is_back(endpoint, seconds, back_seconds):
            gone = f"the device has not served again since {each.id} failed"


def _ask(check: Check, endpoint: Endpoint, seconds: float, known: Known) -> tuple[CheckVerdict, str]:
    try:
        with CheckedDevice(endpoint, seconds, known) as subject:
            check.ask(subject)
    except NotOfferedError as error:
        return CheckVerdict.NOT_OFFERED, str(error)
    except HalError as error:
        return CheckVerdict.FAILED, f"got {error}, expected success"
    except DeadObjectError as error:
        return CheckVerdict.FAILED, f"the device has ended the session or is gone: {error}"
    except NnhalError as error:
        return CheckVerdict.FAILED, str(error)
    except (LookupError, ValueError, AssertionError, OSError, DecodeError) as error:  # it may answer anything
        return CheckVerdict.FAILED, f"got an answer that cannot be read ({type(error).__name__}: {error})"
    return CheckVerdict.PASSED, ""


def require_served(endpoint: Endpoint, seconds: float) -> None:
    """Open a session and make a call. Raises DeadObjectError or TransportError if that is not possible."""
    with CheckSession(endpoint, seconds) as session:
        session.call(session.device.GetVersionString, device_pb2.GetVersionStringRequest())


def _is_back(endpoint: Endpoint, seconds: float, back_seconds: float) -> bool:
    """Wait until the device serves, for so long."""
    deadline = time.monotonic() + back_seconds
    while True:
        try:
            require_served(endpoint, seconds)
            return True
        except NnhalError:
            if time.monotonic() > deadline:
                return False
        time.sleep(_POLL_SECONDS)
