from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nnhal_hosting import supervision
from nnhal_hosting.restarted_process import RestartedProcess, RestartState
from nnhal_hosting.supervision import Child, StartError, is_stopped
from tests.support.processes import WARM
from tests.support.waiting import stop, wait_until

PATIENCE = 300.0
"""A process hangs after some seconds that it had a processor for, which take long on a busy machine."""


@pytest.fixture
def lines() -> list[str]:
    return []


def telling(lines: list[str]) -> Callable[[str, str], None]:
    return lambda kind, text: lines.append(f"{kind}: {text}")


def restarted_null(directory: Path, lines: list[str]) -> RestartedProcess:
    return RestartedProcess(
        "null", lambda: Child("nnhal_devices", ["null", "--endpoint", str(directory)], zygote=WARM), telling(lines)
    )


@pytest.fixture
def restarted(short_path: Path, lines: list[str]) -> Iterator[RestartedProcess]:
    kept = restarted_null(short_path, lines)
    kept.keep()
    yield kept
    kept.leave().stop()


def test_a_process_that_dies_is_started_again(restarted: RestartedProcess, lines: list[str]) -> None:
    for _ in range(2):
        before = restarted.child.pid
        lines.clear()
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: len(lines) == 2, "it serves again")
        after = restarted.child.pid
        assert after != before
        assert lines[0].startswith(f"died: process {before} was killed by SIGKILL; starting it again in ")
        assert lines[1] == f"started: process {after} serves"


def test_a_process_that_was_left_is_not_started_again(short_path: Path, lines: list[str]) -> None:
    restarted = restarted_null(short_path, lines)
    restarted.keep()
    child = restarted.leave()
    child.process.kill()
    child.stop()
    assert restarted.child is child
    assert lines == []


def test_a_process_that_does_not_start_is_an_error(lines: list[str]) -> None:
    restarted = RestartedProcess(
        "null", lambda: Child("nnhal_devices", ["no_such_driver", "--endpoint", "/nowhere"]), telling(lines)
    )
    with pytest.raises(StartError, match="no_such_driver"):
        restarted.keep()
    restarted.leave().stop()


def test_a_process_that_was_left_is_not_waited_for(short_path: Path, lines: list[str]) -> None:
    restarted = restarted_null(short_path, lines)
    child = restarted.leave()
    with pytest.raises(StartError, match="was to end before it served"):
        restarted.keep()
    child.stop()
    assert lines == []


def test_a_process_that_cannot_be_started_again_is_tried_with_growing_delays(
    short_path: Path, lines: list[str]
) -> None:
    arguments = ["null", "--endpoint", str(short_path)]
    restarted = RestartedProcess("null", lambda: Child("nnhal_devices", arguments, zygote=WARM), telling(lines))
    restarted.keep()
    arguments[0] = "bogus"
    restarted.child.process.kill()
    wait_until(lambda: len(lines) == 3, "it has failed to start twice")
    assert lines[0].endswith("starting it again in 0.2 s")
    assert "no driver is called 'bogus'" in lines[1]
    assert lines[1].endswith("starting it again in 0.4 s")
    assert lines[2].endswith("starting it again in 0.8 s")
    assert (restarted.state, restarted.restarts) == (RestartState.WAITING, 0)
    restarted.leave().stop()
    assert len(lines) == 3


def test_a_lack_of_descriptors_delays_a_start_and_ends_nothing(short_path: Path, lines: list[str]) -> None:
    lacking = [False]

    def launch() -> Child:
        if lacking[0]:
            lacking[0] = False
            raise OSError(errno.EMFILE, "Too many open files")
        return Child("nnhal_devices", ["null", "--endpoint", str(short_path)], zygote=WARM)

    restarted = RestartedProcess("null", launch, telling(lines))
    restarted.keep()
    lacking[0] = True
    restarted.child.process.kill()
    wait_until(lambda: len(lines) == 3, "it serves again")
    assert lines[1].startswith("died: it cannot be started: Too many open files; starting it again in ")
    assert lines[2] == f"started: process {restarted.child.pid} serves"
    restarted.leave().stop()


def test_nothing_that_fails_ends_the_watch(short_path: Path, lines: list[str]) -> None:
    failures: list[Exception] = []

    def launch() -> Child:
        if failures:
            raise failures.pop()
        return Child("nnhal_devices", ["null", "--endpoint", str(short_path)], zygote=WARM)

    def tell(kind: str, text: str) -> None:
        lines.append(f"{kind}: {text}")
        raise OSError(errno.ENOSPC, "No space left on device")

    restarted = RestartedProcess("null", launch, tell)
    restarted.keep()
    failures += [MemoryError(), RuntimeError("can't start new thread"), BlockingIOError(errno.EAGAIN, "try again")]
    restarted.child.process.kill()
    wait_until(lambda: restarted.state is RestartState.RUNNING and restarted.restarts == 1, "it serves again")
    assert [line.partition(";")[0] for line in lines[1:]] == [
        "died: it cannot be started: try again",
        "died: it cannot be started",
        "died: it cannot be started",
        f"started: process {restarted.child.pid} serves",
    ]
    restarted.leave().stop()


def test_a_process_that_serves_each_time_is_started_again_soon(restarted: RestartedProcess, lines: list[str]) -> None:
    for _ in range(3):
        lines.clear()
        restarted.child.process.kill()
        wait_until(lambda: len(lines) == 2, "it serves again")
        assert lines[0].endswith(("in 0.2 s", "in 0.4 s"))


def test_it_says_what_it_waits_for(restarted: RestartedProcess) -> None:
    assert restarted.waits_for == ""
    stop(restarted.child.pid)
    assert restarted.waits_for == f"process {restarted.child.pid}, which a signal has stopped (SIGCONT lets it go on)"
    restarted.child.process.kill()
    wait_until(lambda: restarted.waits_for.startswith("its next start in 0."), "it waits")
    wait_until(lambda: restarted.waits_for.endswith("to serve, for 0 of 60 s"), "it starts")
    wait_until(lambda: restarted.waits_for == "", "it serves again")


def test_a_process_whose_interpreter_is_never_let_go_is_killed_and_started_again(lines: list[str]) -> None:
    restarted = RestartedProcess(
        "held", lambda: Child("tests.support.held_interpreter", [], hang_seconds=1.0), telling(lines)
    )
    restarted.keep()
    first = restarted.child.pid
    wait_until(lambda: len(lines) >= 2, "it serves again", PATIENCE)
    assert lines[0] == f"died: process {first} gave no sign of life for 1 s and was killed; starting it again in 0.2 s"
    assert lines[1].startswith("started: process ")
    restarted.leave().stop(0)


def test_a_process_that_was_stopped_does_not_hang(
    short_path: Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)

    def look(pid: int) -> bool:
        looks.release()
        return is_stopped(pid)

    monkeypatch.setattr(supervision, "is_stopped", look)
    words = ["null", "--endpoint", str(short_path)]
    restarted = RestartedProcess("null", lambda: Child("nnhal_devices", words, hang_seconds=4.0), telling(lines))
    restarted.keep()
    stop(restarted.child.pid)
    for _ in range(4):  # each once it has been silent for half the time after which it would hang, anew
        assert looks.acquire(timeout=60)
    restarted.child.process.send_signal(signal.SIGCONT)
    assert restarted.leave().stop(60) == 0
    assert lines == []
