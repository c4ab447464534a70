"""Reports of a supervisor about a session's process."""

from __future__ import annotations

import os
import select
import signal
import socket
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal_tools.stress.client import StressClient
from nnhal_tools.stress.messages import Message, ProgressEvent, decode
from nnhal_tools.stress.report import StressReport
from nnhal_tools.stress.script import Act, ClientScript

SCRIPT = ClientScript(4, 1, ((Act("execute", 2),), (Act("getters", 3),)))


def run_to_end(client: StressClient) -> None:
    while client.read():
        pass
    client.end()


@pytest.mark.slow
def test_a_session_that_makes_no_progress_is_found_and_killed(short_path: Path) -> None:
    report = StressReport("none", 1)
    client = StressClient(Endpoint(short_path), SCRIPT, report)
    client.mind(hang_seconds=-1.0)
    run_to_end(client)
    assert [finding.text for finding in report.findings] == ["no progress for -1 s"]
    assert report.endings == {"killed": 1}
    assert not report.passed


@pytest.mark.slow
def test_a_session_whose_process_fails_is_found(short_path: Path) -> None:
    report = StressReport("none", 1)
    run_to_end(StressClient(Endpoint(short_path), SCRIPT, report))
    (finding,) = report.findings
    assert (finding.client, finding.seed) == (4, 1)
    assert finding.text.startswith("the session's process ended with status 1; it printed:\n")
    assert "DeadObjectError: no link at" in finding.text


@pytest.mark.slow
def test_where_the_process_of_a_session_has_crashed_is_told(short_path: Path) -> None:
    endpoint, report = Endpoint(short_path), StressReport("none", 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
        silent.settimeout(60)
        silent.bind(str(endpoint.link))
        silent.listen()
        client = StressClient(endpoint, SCRIPT, report)
        with silent.accept()[0]:  # it waits for a greeting that does not come
            os.kill(client.pid, signal.SIGSEGV)
            run_to_end(client)
    (finding,) = report.findings
    assert finding.text.startswith("the session's process was killed by SIGSEGV; it printed:\nFatal Python error")
    assert "in main" in finding.text


def test_every_message_is_written_at_once_or_not_at_all() -> None:
    message = Message(ProgressEvent.VIOLATION, 2, 99_999, "€" * 10_000)
    assert len(message.encode()) <= select.PIPE_BUF
    assert message.encode().count(b"\n") == 1
    short = Message(ProgressEvent.NOTE, 1, 2, f"a 'quoted'\n\"line\"{os.sep}")
    assert decode(short.encode()) == short
