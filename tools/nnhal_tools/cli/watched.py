"""``nnhal watched``: a command of nnhal under a first process that ends it if it hangs.

The engine of a container starts it again when its first process ends, but leaves alone one that hangs. This first
process is to the command what systemd with WatchdogSec is (``nnhal_hosting.service_manager``): once it serves, the
command says again and again that it works. One that does not for a minute is killed, unless a signal has stopped it or
a debugger traces it. Signals are passed on, and processes that nobody waits for are waited for.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence

from nnhal_hosting.processor_time import ProcessorTime
from nnhal_hosting.service_manager import SERVES, manager_variables, watchdog_variables
from nnhal_tools.cli.programs import PROGRAMS

USAGE = f"""usage: nnhal watched [--hang-secs SECONDS] COMMAND ARGUMENT…

Run 'nnhal COMMAND ARGUMENT…' as the first process of a container, and kill it if it gives no sign of life for SECONDS
(default 60; 0 for never), so that the container ends, and is started again.
COMMAND is one of {", ".join(PROGRAMS)}. Exits with its status, or with 128 and the signal that has ended it."""
_HANG_SECONDS = 60.0
_TICK_SECONDS = 1.0
_LONGEST_TICK_SECONDS = 1.5
"""The most that counts of a tick: if this process itself was late, the machine was asleep."""
_SIGNALS = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
_SIGNAL_STATUS = 128


def main(arguments: Sequence[str]) -> int:
    """Run a command. Returns its status, 2 if the arguments are wrong."""
    words, seconds = list(arguments), _HANG_SECONDS
    if words[:1] == ["--hang-secs"]:
        seconds, words = float(words[1]) if words[1:2] and words[1].isdecimal() else -1.0, words[2:]
    if words[:1] == ["--help"]:
        print(USAGE)
        return 0
    if seconds < 0 or not words or words[0] not in PROGRAMS:
        print(f"nnhal watched: got {' '.join(arguments) or 'no arguments'}\n{USAGE}", file=sys.stderr)
        return 2
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    with (
        tempfile.TemporaryDirectory(prefix="nnhal-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as signs,
    ):
        signs.bind(f"{folder}/signs")
        signs.setblocking(False)
        variables = manager_variables(signs.getsockname()) | watchdog_variables(seconds)
        command = [sys.executable, "-m", PROGRAMS[words[0]], *words[1:]]
        child = os.posix_spawn(sys.executable, command, os.environ | variables, setsigmask=[])
        return _watch(child, signs, seconds)


def _watch(child: int, signs: socket.socket, seconds: float) -> int:
    """Watch a process until it has ended, and return its status."""
    serves, hung, silence = False, False, 0.0
    its_time = ProcessorTime(child, os.getpid())
    while True:
        received = signal.sigtimedwait(_SIGNALS, min(_TICK_SECONDS, seconds / 4 or _TICK_SECONDS))
        if received is not None and received.si_signo == signal.SIGCHLD:
            status = _ended(child)
            if status is not None:
                return status
        elif received is not None:
            os.kill(child, received.si_signo)
        said = _heard(signs)
        serves = serves or SERVES.encode() in said
        passed = its_time.passed(_LONGEST_TICK_SECONDS)
        silence = 0.0 if said or not serves else silence + passed
        if seconds and silence > seconds / 2 and not hung:
            from nnhal_hosting.supervision import is_held  # it imports much that is seldom needed

            if is_held(child):
                silence = 0.0
            elif silence >= seconds:
                hung = True
                print(f"nnhal watched: process {child} gave no sign of life for {seconds:g} s: killed", file=sys.stderr)
                os.kill(child, signal.SIGKILL)


def _heard(signs: socket.socket) -> list[bytes]:
    """Lines that the command has printed since it was asked last."""
    said = []
    try:
        while True:
            said.append(signs.recv(100))
    except BlockingIOError:
        return said


def _ended(child: int) -> int | None:
    """The status of the command, if it has ended. Other processes that have ended are forgotten."""
    status = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                code = os.waitstatus_to_exitcode(ended[1])
                status = code if code >= 0 else _SIGNAL_STATUS - code
    except ChildProcessError:
        pass
    return status
