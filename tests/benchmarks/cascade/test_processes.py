"""What whole processes cost."""

from __future__ import annotations

import sys

import pytest

from benchmarks.cascade.processes import CommandFailedError, interleaved, process_cost


def test_memory_is_that_of_the_command_and_not_of_the_tests() -> None:
    small = process_cost([sys.executable, "-S", "-c", "pass"])
    large = process_cost([sys.executable, "-S", "-c", "b'x' * (200 << 20)"])
    assert small.mib < 40
    assert 200 <= large.mib < 240


def test_commands_take_turns() -> None:
    command = [sys.executable, "-S", "-c", "pass"]
    found = interleaved({"one": command, "two": command}, rounds=1)
    assert list(found) == ["one", "two"]
    assert all(each.cpu > 0 for each in found.values())


def test_a_command_that_fails_says_why() -> None:
    with pytest.raises(CommandFailedError, match="no such network"):
        process_cost([sys.executable, "-S", "-c", "raise SystemExit('no such network')"])
