"""Answers that clients do not take."""

from __future__ import annotations

from collections.abc import Callable

from nnhal_hosting.calls import UntakenAnswers


class Given:
    """Answers that were given, with a clock that is moved by hand."""

    def __init__(self, limit: int, limit_bytes: int | None = None) -> None:
        self.now = 0.0
        self.ended: list[str] = []
        self._answers = UntakenAnswers(limit, limit_bytes, lambda: self.now)

    def add(self, name: str, size: int = 0) -> Callable[[], None]:
        return self._answers.add(size, lambda: self.ended.append(name))


def test_the_oldest_answers_beyond_the_limit_end() -> None:
    given = Given(2)
    for name in "abc":
        given.add(name)
    assert not given.ended, "they have just been given"
    given.now = 2.0
    given.add("d")
    assert given.ended == ["a", "b"]


def test_answers_that_are_taken_count_no_longer() -> None:
    given = Given(1, limit_bytes=10)
    for number in range(5):
        taken = given.add(str(number), size=8)
        taken()
        taken()
        given.now += 3.0
    given.add("last", size=2)
    assert not given.ended


def test_bytes_count_at_once_and_the_newest_answer_may_have_any() -> None:
    given = Given(100, limit_bytes=10)
    given.add("a", 6)
    given.add("b", 6)
    assert given.ended == ["a"]
    given.add("huge", 1000)
    assert given.ended == ["a", "b"]
