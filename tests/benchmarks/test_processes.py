"""What processes cost, as the kernel reports it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.processes import TracingRefusedError, counting, family, process_ns, threads_of

BLOCKS = 50
IDENTIFIES = 30
PROGRAM = f"""
import os, sys, threading
from nnhal_hosting.threads import show_thread_names
show_thread_names()
begin, done, end = threading.Event(), threading.Event(), threading.Event()

def identify():
    for _ in range({IDENTIFIES}):
        os.getpid()

def wait():
    begin.wait()
    for _ in range({BLOCKS}):
        threading.Event().wait(0.001)
    identify()
    done.set()
    end.wait()

def compute():
    sum(range(1_000_000))
    identify()

lasting = threading.Thread(target=wait, name="lasting_7", daemon=True)
lasting.start()
print("ready", flush=True)
for line in sys.stdin:
    if line == "work\\n":
        begin.set()
        brief = threading.Thread(target=compute, name="brief-1")
        brief.start()
        brief.join()
        done.wait()
    elif line == "exit\\n":
        os._exit(7)
    os.write(1, b"done\\n")
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
print(child.pid, flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.slow


@contextmanager
def process(program: str = PROGRAM) -> Iterator[subprocess.Popen[str]]:
    """A process that obeys the lines that it is told."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def said(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    return running.stdout.readline().rstrip()


def told(running: subprocess.Popen[str], word: str) -> str:
    assert running.stdin is not None
    running.stdin.write(word + "\n")
    running.stdin.flush()
    return said(running)


def test_a_threads_wake_ups_and_time_are_counted_under_its_role() -> None:
    with process() as running:
        assert said(running) == "ready"
        before, time_before = threads_of(running.pid), process_ns(running.pid)
        assert told(running, "work") == "done"
        after, time_after = threads_of(running.pid), process_ns(running.pid)
        during = {thread.role: thread.since(before.get(tid)) for tid, thread in after.items()}
    assert set(during) == {"main", "lasting"}
    assert during["lasting"].wakes >= BLOCKS
    assert during["lasting"].processor_ns > 0
    living_ns = sum(thread.processor_ns for thread in during.values())
    assert time_after - time_before > living_ns, "that of the thread that has ended is the process's"


def test_a_process_that_has_ended_has_no_threads() -> None:
    with process() as running:
        said(running)
    assert threads_of(running.pid) == {}
    with pytest.raises(OSError):
        process_ns(running.pid)


def test_a_family_is_a_process_and_its_descendants() -> None:
    with process(PARENT) as running:
        child = int(said(running))
        assert family(running.pid) == [running.pid, child]
        assert family(child) == [child]


def test_system_calls_are_counted_by_process_role_and_name() -> None:
    with process() as running:
        said(running)
        with counting([running.pid]) as calls:
            assert told(running, "work") == "done"
        getpid = {role: count for (_, role, name), count in calls.counts.items() if name == "getpid"}
        assert getpid == {"lasting": IDENTIFIES, "brief": IDENTIFIES}
        assert calls.of_role(running.pid, "lasting") >= BLOCKS + IDENTIFIES
        assert told(running, "more") == "done", "it runs on, and is not counted any more"
        assert "TracerPid:\t0\n" in Path(f"/proc/{running.pid}/status").read_text()
        with counting([running.pid]) as again:
            assert told(running, "more") == "done"
        assert again.counts[running.pid, "main", "write"] == 1


def test_a_process_that_ends_while_it_is_counted_leaves_its_status() -> None:
    with process() as running:
        said(running)
        with counting([running.pid]) as calls:
            assert told(running, "exit") == ""
        assert calls.counts[running.pid, "main", "exit_group"] == 1
        assert running.wait() == 7


def test_a_process_that_is_killed_while_it_is_counted_ends() -> None:
    with process() as running:
        said(running)
        with counting([running.pid]):
            os.kill(running.pid, signal.SIGKILL)
            assert said(running) == ""


def test_a_process_that_another_traces_is_refused() -> None:
    with process() as running:
        said(running)
        with (
            counting([running.pid]),
            pytest.raises(TracingRefusedError, match="ptrace is refused: Operation not"),
            counting([running.pid]),
        ):
            pass
        assert told(running, "more") == "done"
