"""Logs of a process: what is shown, and that what is hidden costs no import."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

from structlog.contextvars import STRUCTLOG_KEY_PREFIX

from nnhal_service.observability.request_scope import PREFIX

PROGRAM = """
import sys, threading
from nnhal_hosting.logs import configure_logs, get_logger
configure_logs("cpu_ref", "warning", {as_json})
log = get_logger("a module")
log.info("hidden")
print("structlog" in sys.modules)
thread = threading.Thread(target=log.warning, args=("shown",), kwargs=dict(number=7))
thread.start()
thread.join()
try:
    1 / 0
except ZeroDivisionError:
    log.exception("failed")
"""


def logged(as_json: bool) -> tuple[str, str]:
    program = PROGRAM.format(as_json=as_json)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_lines_name_the_process_whatever_thread_wrote_them() -> None:
    printed, lines = logged(as_json=True)
    first, second = map(json.loads, lines.splitlines())
    assert (first["process"], first["level"], first["event"], first["number"]) == ("cpu_ref", "warning", "shown", 7)
    assert (second["process"], second["level"], second["event"]) == ("cpu_ref", "error", "failed")
    assert second["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert printed == "False\n"


def test_lines_for_people_have_the_traceback() -> None:
    _, lines = logged(as_json=False)
    assert "shown" in lines and "process=cpu_ref" in lines and "number=7" in lines
    assert "ZeroDivisionError: division by zero" in lines


def test_what_a_thread_works_on_goes_by_structlogs_prefix() -> None:
    assert PREFIX == STRUCTLOG_KEY_PREFIX


EXHAUSTED = """
import resource
from nnhal_hosting.logs import configure_logs, get_logger
configure_logs("cpu_ref", "warning", True)
log = get_logger("a module")
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
log.warning("lost")
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
log.warning("kept")
"""


def test_the_first_line_of_a_process_without_free_descriptors_is_lost_but_not_its_writer() -> None:
    done = subprocess.run([sys.executable, "-c", EXHAUSTED], capture_output=True, text=True, check=True)
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == ["kept"]


CRASHING = """
import os, signal
from nnhal_hosting.logs import configure_logs
configure_logs("cpu_ref", "warning", True)
def falls():
    os.kill(os.getpid(), signal.SIGSEGV)
falls()
"""


def test_a_process_that_crashes_says_where() -> None:
    done = subprocess.run([sys.executable, "-c", CRASHING], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr and "in falls" in done.stderr


def test_a_process_without_standard_error_starts_too() -> None:
    program = "import sys; sys.stderr = None\n" + PROGRAM.format(as_json=True).partition("log =")[0]
    subprocess.run([sys.executable, "-c", program], check=True)
