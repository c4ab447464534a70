from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal_hosting.keeper import Keeper
from nnhal_hosting.supervision import Child, StartError
from tests.support.waiting import wait_until


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def keeper(short_path: Path, lines: list[str]) -> Iterator[Keeper]:
    kept = Keeper("null", lambda: Child("nnhal_devices", ["null", "--endpoint", str(short_path)]), lines.append)
    kept.keep()
    yield kept
    kept.leave().stop()


def test_a_process_that_dies_is_started_again(keeper: Keeper, lines: list[str]) -> None:
    for _ in range(2):
        before = keeper.child.pid
        lines.clear()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: len(lines) == 2, "it serves again")
        after = keeper.child.pid
        assert after != before
        assert lines[0].startswith(f"null: process {before} ended with status -9; starting it again in ")
        assert lines[1] == f"null: process {after}"


def test_a_process_that_was_left_is_not_started_again(short_path: Path, lines: list[str]) -> None:
    keeper = Keeper("null", lambda: Child("nnhal_devices", ["null", "--endpoint", str(short_path)]), lines.append)
    keeper.keep()
    child = keeper.leave()
    child.process.kill()
    child.stop()
    assert keeper.child is child
    assert lines == []


def test_a_process_that_does_not_start_is_an_error(lines: list[str]) -> None:
    keeper = Keeper("null", lambda: Child("nnhal_devices", ["no_such_driver", "--endpoint", "/nowhere"]), lines.append)
    with pytest.raises(StartError, match="no_such_driver"):
        keeper.keep()
    keeper.leave().stop()
