"""Facts of /proc about processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from nnhal_hosting.admin.usage import command_of, process_usage, user_name
from nnhal_hosting.descriptors import SessionLimits
from nnhal_hosting.link_server import Session
from nnhal_hosting.process_start import process_started_ns
from tests.support.resources import threads_of
from tests.support.waiting import wait_until

WAITS = "import sys; sys.stdin.read()"


def session(pid: int) -> Session:
    return Session(SessionLimits(), pid, os.geteuid())


def test_usage_is_what_the_kernel_counts() -> None:
    before, spent = process_usage(), time.process_time_ns()
    reader, writer = os.pipe()
    after = process_usage()
    os.close(reader)
    os.close(writer)
    assert after.descriptors == before.descriptors + 2
    assert after.threads == threads_of(os.getpid())
    assert before.cpu_ns <= spent <= after.cpu_ns
    assert after.resident_bytes > 1 << 20


def test_the_command_is_that_of_the_process_that_opened_the_session() -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS, "an argument"], stdin=subprocess.PIPE) as client:
        opened = session(client.pid)
        # The kernel has a moment in which a process that becomes another program has no command line.
        wait_until(lambda: command_of(opened) != "", "the client has its command line")
        assert command_of(opened) == f"{sys.executable} -c {WAITS} an argument"
        client.kill()
    assert command_of(opened) == ""


def test_a_process_that_began_after_the_session_is_another_one() -> None:
    opened = session(pid=0)
    with subprocess.Popen([sys.executable, "-c", WAITS], stdin=subprocess.PIPE) as other:
        started_ns = process_started_ns(other.pid)
        assert started_ns is not None
        opened.pid, opened.opened_ns = other.pid, started_ns - 1
        assert command_of(opened) == ""
        opened.opened_ns = started_ns
        wait_until(lambda: command_of(opened) != "", "the client has its command line")
        other.kill()


def test_a_process_of_another_container_has_no_command() -> None:
    assert command_of(session(pid=0)) == ""


def test_users_have_their_names_if_there_is_one() -> None:
    assert user_name(0) == "root"
    assert user_name(3_000_000_001) == ""
