"""The threads that nnhal starts: what they do when something fails, and that there are no others."""

from __future__ import annotations

import ast
import errno
import logging
import threading
from pathlib import Path

import pytest

from nnhal.threads import BriefThread, LastingThread
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SOURCES = (
    "hal",
    "hosting",
    "frontends",
    "compilers",
    "devices",
    "service",
    "client",
    "dashboard",
    "pages",
    "tools",
    "scaleout",
)
HELPER = "hal/nnhal/threads.py"


class Failing:
    """Work that fails some times, and then lasts until it is to end."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.over = threading.Event()
        self.works = threading.Event()

    def work(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.works.set()
        self.over.wait()


def test_a_lasting_thread_goes_on_until_it_is_asked_to_end(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(
        OSError(errno.EMFILE, "Too many open files"), MemoryError(), RuntimeError("can't start new thread")
    )
    thread = LastingThread(failing.work, "looks")
    thread.start()
    assert failing.works.wait(30)
    assert thread.is_alive()
    failing.over.set()
    thread.join(30)
    assert not thread.is_alive()
    assert [record.getMessage() for record in caplog.records] == ["a thread has failed: looks"] * 3


def test_the_same_failure_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    failing = Failing(*[OSError(errno.EMFILE, "Too many open files") for _ in range(4)])
    thread = LastingThread(failing.work, "looks")
    thread.start()
    assert failing.works.wait(30)
    failing.over.set()
    thread.join(30)
    assert len(caplog.records) == 1


def test_what_cannot_be_logged_ends_no_thread(caplog: pytest.LogCaptureFixture) -> None:
    class Full(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    failing, full = Failing(ValueError("a defect")), Full()
    logging.getLogger("nnhal").addHandler(full)
    try:
        LastingThread(failing.work, "looks").start()
        assert failing.works.wait(30)
    finally:
        logging.getLogger("nnhal").removeHandler(full)
        failing.over.set()


def test_a_brief_thread_says_what_its_work_raises(caplog: pytest.LogCaptureFixture) -> None:
    thread = BriefThread(Failing(ValueError("a defect")).work, "once").started()
    assert thread is not None
    thread.join(30)
    (record,) = caplog.records
    assert record.getMessage() == "a thread has failed: once"
    assert record.exc_info is not None


def test_who_cannot_start_a_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert LastingThread(lambda: None, "looks").started() is None


def test_an_ended_thread_holds_nothing_of_its_work() -> None:
    failing = Failing()
    failing.over.set()
    thread = LastingThread(failing.work, "looks")
    thread.start()
    thread.join(30)
    wait_until(lambda: failing.work not in vars(thread).values(), "its work is forgotten")


def made_threads(path: Path) -> list[int]:
    """Return the lines of a file in which it makes a thread or a timer itself."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    names = [(call.lineno, ast.unparse(call.func).rpartition(".")[2]) for call in calls]
    return [line for line, name in names if name in ("Thread", "Timer")]


def test_no_thread_is_made_but_by_the_helper() -> None:
    files = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")]
    assert len(files) > 500
    found = {str(path.relative_to(ROOT)): lines for path in files if (lines := made_threads(path))}
    assert found.keys() <= {HELPER}, found
