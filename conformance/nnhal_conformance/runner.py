"""Asking a device about rules, one after another, whatever becomes of it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from google.protobuf.message import DecodeError

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.v1 import device_pb2
from nnhal_conformance.device import Known, Subject
from nnhal_conformance.rule import NotOfferedError, Rule
from nnhal_conformance.session import DeviceSession

RETURN_SECONDS = 10.0
"""Time for a device that has ended or does not answer: what supervises it may start it again."""
_POLL_SECONDS = 0.1


class Verdict(StrEnum):
    """Answer about a rule. Not asked: the device did not come back after an earlier rule."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"
    NOT_ASKED = "not asked"


BAD = (Verdict.FAILED, Verdict.NOT_ASKED)
"""Verdicts that keep a device from passing."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Result of one rule."""

    rule: Rule
    """The rule."""
    verdict: Verdict
    """Outcome of the rule."""
    seconds: float
    """Time that it took."""
    words: str = ""
    """Words on what was got and expected, or on what is not offered; empty if it passed."""


def ask_rules(
    endpoint: Endpoint, rules: Sequence[Rule], seconds: float, back_seconds: float = RETURN_SECONDS
) -> Iterator[RuleResult]:
    """Ask about rules, each answer of which may take ``seconds``.

    If the device ends or falls silent, it has broken the rule; the next ones are asked if it serves again. Raises
    DeadObjectError or TransportError before the first one if it cannot be asked at all.
    """
    require_served(endpoint, seconds)
    known, gone = Known(), ""
    for each in rules:
        if gone:
            yield RuleResult(each, Verdict.NOT_ASKED, 0.0, gone)
            continue
        result = ask_rule(each, endpoint, seconds, known)
        yield result
        if result.verdict is Verdict.FAILED and not is_back(endpoint, seconds, back_seconds):
            gone = f"the device has not served again since {each.id} failed"


def ask_rule(rule: Rule, endpoint: Endpoint, seconds: float, known: Known) -> RuleResult:
    """Ask about one rule, each answer of which may take ``seconds``; ``known`` is kept from rule to rule."""
    began = time.monotonic()
    verdict, words = _ask(rule, endpoint, seconds, known)
    return RuleResult(rule, verdict, time.monotonic() - began, words)


def _ask(rule: Rule, endpoint: Endpoint, seconds: float, known: Known) -> tuple[Verdict, str]:
    try:
        with Subject(endpoint, seconds, known) as subject:
            rule.ask(subject)
    except NotOfferedError as error:
        return Verdict.NOT_OFFERED, str(error)
    except (
        NnhalError,
        LookupError,
        ValueError,
        AssertionError,
        OSError,
        DecodeError,
    ) as error:  # it may answer anything
        return Verdict.FAILED, failure_in_words(error)
    return Verdict.PASSED, ""


def failure_in_words(error: Exception) -> str:
    """Say what a device did that made asking it fail."""
    if isinstance(error, HalError):
        return f"got {error}, expected success"
    if isinstance(error, DeadObjectError):
        return f"the device has ended the session or is gone: {error}"
    if isinstance(error, NnhalError):
        return str(error)
    return f"got an answer that cannot be read ({type(error).__name__}: {error})"


def require_served(endpoint: Endpoint, seconds: float) -> None:
    """Open a session and make a call. Raises DeadObjectError or TransportError if that is not possible."""
    with DeviceSession(endpoint, seconds) as session:
        session.call(session.device.GetVersionString, device_pb2.GetVersionStringRequest())


def is_back(endpoint: Endpoint, seconds: float, back_seconds: float) -> bool:
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
