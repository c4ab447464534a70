"""What a supervisor reports of a session's process."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal_tools.stress.client import StressClient
from nnhal_tools.stress.messages import Message, ProgressEvent, decode
from nnhal_tools.stress.report import StressReport


def run_to_end(client: StressClient) -> None:
    while client.read():
        pass
    client.end()


@pytest.mark.slow
def test_a_session_that_makes_no_progress_is_found_and_killed(short_path: Path) -> None:
    report = StressReport("none", 1)
    client = StressClient(Endpoint(short_path), 1, report)
    client.mind(hang_seconds=-1.0)
    run_to_end(client)
    assert [finding.text for finding in report.findings] == ["no progress for -1 s"]
    assert report.endings == {"killed": 1}
    assert not report.passed


@pytest.mark.slow
def test_a_session_whose_process_fails_is_found(short_path: Path) -> None:
    report = StressReport("none", 1)
    run_to_end(StressClient(Endpoint(short_path), 1, report))
    (finding,) = report.findings
    assert (finding.seed, finding.text) == (1, "the session's process ended with status 1")


def test_every_message_is_written_at_once_or_not_at_all() -> None:
    message = Message(ProgressEvent.VIOLATION, 2, 99_999, "€" * 10_000)
    assert len(message.encode()) <= select.PIPE_BUF
    assert message.encode().count(b"\n") == 1
    short = Message(ProgressEvent.NOTE, 1, 2, f"a 'quoted'\n\"line\"{os.sep}")
    assert decode(short.encode()) == short
