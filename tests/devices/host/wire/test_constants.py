from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace

import pytest

from nnhal.errors import HalError
from nnhal_devices.host.wire.constants import KeptConstants, Uploads
from nnhal_devices.host.wire.limits import SessionBudget, WireLimits

LIMITS = WireLimits(sessions=2, session_bytes=100, upload_bytes=50, constant_bytes=60, objects=3, message_bytes=1 << 20)


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def uploads(kept: KeptConstants, client: str = "ci") -> tuple[Uploads, SessionBudget]:
    budget = SessionBudget(LIMITS)
    return Uploads(client, kept, LIMITS, budget), budget


def test_the_least_recently_used_constants_are_dropped() -> None:
    kept = KeptConstants(60)
    first, second, third = (letter * 25 for letter in (b"a", b"b", b"c"))
    kept.add("ci", digest(first), first)
    kept.add("ci", digest(second), second)
    assert kept.get("ci", digest(first)) == first
    kept.add("ci", digest(third), third)
    assert kept.get("ci", digest(second)) is None
    assert kept.get("ci", digest(first)) == first
    assert kept.held_bytes == 50


def test_a_client_does_not_get_the_constants_of_another() -> None:
    kept = KeptConstants(60)
    kept.add("ci", digest(b"secret"), b"secret")
    assert kept.get("other", digest(b"secret")) is None


def test_what_has_come_completely_is_kept_and_counts_no_more() -> None:
    kept = KeptConstants(60)
    uploading, budget = uploads(kept)
    assert uploading.receive(digest(b"abcd"), 4, 0, iter([b"ab", b"cd"])) == 4
    assert kept.get("ci", digest(b"abcd")) == b"abcd"
    assert budget.held_bytes == 0


def test_what_has_come_before_a_stream_broke_is_there_until_the_session_ends() -> None:
    uploading, budget = uploads(KeptConstants(60))

    def broken() -> Iterator[bytes]:
        yield b"ab"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        uploading.receive(digest(b"abcd"), 4, 0, broken())
    assert uploading.received(digest(b"abcd")) == budget.held_bytes == 2
    uploading.close()
    assert uploading.received(digest(b"abcd")) == budget.held_bytes == 0


@pytest.mark.parametrize(
    ("length", "content", "reason"),
    [
        (51, b"x", "UPLOAD_BYTES"),
        (2, b"xyz", "3 bytes of a constant, expected 2"),
        (4, b"abcd", "with digest"),
    ],
)
def test_wrong_uploads_are_refused_and_leave_nothing(length: int, content: bytes, reason: str) -> None:
    uploading, budget = uploads(KeptConstants(60))
    with pytest.raises(HalError, match=reason):
        uploading.receive(digest(b"other"), length, 0, iter([content]))
    assert budget.held_bytes == 0


def test_a_constant_that_would_not_be_kept_is_refused() -> None:
    uploading = Uploads("ci", KeptConstants(10), LIMITS, SessionBudget(LIMITS))
    with pytest.raises(HalError, match="CONSTANT_BYTES"):
        uploading.receive(digest(b"x" * 11), 11, 0, iter([b"x" * 11]))


def test_a_session_holds_no_more_than_it_may() -> None:
    budget = SessionBudget(replace(LIMITS, session_bytes=10))
    client = budget.take(10, "a buffer")
    with pytest.raises(HalError, match="SESSION_BYTES"):
        budget.take(1, "a buffer")
    budget.give(client, 10)
    for _ in range(3):
        budget.take(1, "a buffer")
    with pytest.raises(HalError, match="OBJECTS"):
        budget.take(1, "a buffer")
