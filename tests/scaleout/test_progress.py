"""What a command tells while it waits."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from nnhal_ray.progress import Progress, TooLongError


def progress() -> tuple[Progress, io.StringIO]:
    said = io.StringIO()
    return Progress(Console(file=said, soft_wrap=True, highlight=False)), said


def test_a_wait_is_told_when_it_begins_changes_and_ends() -> None:
    waiting, said = progress()
    stages = iter(["0 of 2 hosts", "1 of 2 hosts", "2 of 2 hosts"])
    looks = iter([False, False, True])
    waiting.wait(lambda: next(stages), lambda: next(looks), 600)
    first, second, last = said.getvalue().splitlines()
    assert first == "0 of 2 hosts …"
    assert second.startswith("1 of 2 hosts, ") and last.startswith("2 of 2 hosts: done after ")


def test_a_wait_that_is_too_long_says_for_what() -> None:
    waiting, _ = progress()
    with pytest.raises(TooLongError, match="1 of 2 hosts: this has taken longer than 0 s"):
        waiting.wait("1 of 2 hosts", lambda: False, 0)


def test_what_a_call_returns_or_raises_is_passed_on() -> None:
    waiting, said = progress()
    assert waiting.during("it starts", lambda: 3, 600) == 3
    assert "it starts: done" in said.getvalue()
    with pytest.raises(ZeroDivisionError):
        waiting.during("it starts", lambda: 1 // 0, 600)
