"""Remembered answers: those used last, by digests of the questions."""

from __future__ import annotations

from nnhal_devices.remembered import Remembered, digest_of


def test_the_answers_that_were_used_last_are_kept() -> None:
    known: Remembered[str] = Remembered(2)
    first, second, third = (digest_of(bytes([number])) for number in range(3))
    assert (known.add(first, "one"), known.add(second, "two"), known.get(first)) == ("one", "two", "one")
    known.add(third, "three")
    assert [known.get(question) for question in (first, second, third)] == ["one", None, "three"]


def test_a_question_is_more_than_its_message() -> None:
    assert digest_of(b"message", 1, (2, 3)) == digest_of(b"message", 1, (2, 3))
    assert len({digest_of(b"message", 1), digest_of(b"message", 2), digest_of(b"massage", 1)}) == 3
