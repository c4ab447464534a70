"""Trials of foreign code in forked processes, so that what ends or holds up a process is known before this one runs it.

A fork is cheap, and has imported what the code needs. It must be made before the process has threads that hold locks.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import select
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

SECONDS = 30.0
"""Seconds that a trial may take."""
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h


class TrialError(Exception):
    """The code raised, ended its process, or was still running when its time was over; the message says which."""


def try_all(functions: Sequence[Callable[[], Any]], seconds: float = SECONDS) -> list[Any | TrialError]:
    """Call each function in a process of its own, all at once, and return what JSON can hold of each, or its error."""
    until = time.monotonic() + seconds
    trials = [_Trial(function) for function in functions]
    return [trial.result(until, seconds) for trial in trials]


class _Trial:
    def __init__(self, function: Callable[[], Any]) -> None:
        self._answer = os.memfd_create("nnhal-trial", os.MFD_CLOEXEC)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
            self._pid = os.fork()
        if not self._pid:
            _run(function, self._answer)
        self._process = os.pidfd_open(self._pid)

    def result(self, until: float, seconds: float) -> Any | TrialError:
        """Wait until an instant of time.monotonic, then end the process."""
        ended, _, _ = select.select([self._process], [], [], max(0.0, until - time.monotonic()))
        if not ended:
            os.kill(self._pid, signal.SIGKILL)
        _, status = os.waitpid(self._pid, 0)
        with os.fdopen(self._answer, "rb") as file:
            file.seek(0)
            answer = file.read()
        os.close(self._process)
        if not ended:
            return TrialError(f"it had not ended after {seconds:g} s")
        if not answer:
            return TrialError(f"it ended its process {_described(os.waitstatus_to_exitcode(status))}")
        found = json.loads(answer)
        return TrialError(found["error"]) if "error" in found else found["value"]


def _described(status: int) -> str:
    return f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"


def _run(function: Callable[[], Any], answer: int) -> NoReturn:
    """Be the process of a trial, which ends with its parent, reads nothing, and prints to standard error only."""
    try:
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        faulthandler.disable()  # the parent tells of the crash, in one line
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        try:
            said = {"value": function()}
        except BaseException as error:  # foreign code may even call sys.exit
            said = {"error": str(error) or type(error).__name__}
        os.write(answer, json.dumps(said).encode())
    finally:
        os._exit(0)  # destructors are foreign code too
