"""Starting nnhal's processes, waiting until they serve, and ending them.

A supervised process inherits one end of a socket pair, on which it finds its admin key. It writes a byte when it
serves, and ends when the other end closes, so that it never outlives its supervisor. While it serves, it writes signs
of life, as it tells systemd with WatchdogSec: one whose interpreter a driver never lets go is killed for want of them.
docs/write_a_device.md has this protocol for other programs (see ``foreign_child``).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

from nnhal.admin import EXIT_STATUS
from nnhal.errors import NnhalError
from nnhal.exhaustion import lack_of
from nnhal.threads import BriefThread, LastingThread
from nnhal_hosting.admin_keys import checked_admin_key, new_admin_key
from nnhal_hosting.interrupts import interrupts_blocked
from nnhal_hosting.logs import get_logger
from nnhal_hosting.nonblocking_stderr import STDERR
from nnhal_hosting.process_start import status_words
from nnhal_hosting.processor_time import ProcessorTime
from nnhal_hosting.service_manager import ENDS, SERVES, WORKS, notify_manager, seconds_between_signs, watchdog_variables
from nnhal_hosting.spare_descriptor import FOR_LOOKS
from nnhal_hosting.zygote import UNKNOWN_STATUS, ForkedProcess, Zygote

_log = get_logger(__name__)
READY, _WORKS = b"R", b"W"
_REASON = b"!"
"""The words before the reason why a process ends itself."""
_LONGEST_REASON = 500
HANG_SECONDS = 60.0
"""A process hangs that has given no sign of life for so long."""
_TICKS = 8
"""How often a supervisor looks in the time after which a process hangs, or should have begun to serve."""
_LONGEST_TICK = 1.5
"""The ticks that a longer one counts as at most: if the supervisor itself was late, the machine has slept."""
_REFUSED = 2
"""The exit status of a process that refuses its options, or cannot have what they name."""
_KEY_END = b"\n"
_LONGEST_KEY = 257
"""Bytes of a key, with its end."""
_PIPE_BYTES = 65536
_STOP_SECONDS = 10.0
_READER_SECONDS = 2.0
"""The time that to wait for the rest of an ended process's output: what it has started may hold standard error open."""
_LONGEST_LINE = 65536
"""Bytes after which a line of a process's output is taken for complete."""


class StartError(NnhalError):
    """A process that was started ended, or did not serve in time. The message holds its last output."""

    def __init__(self, message: str, is_reported: bool = False) -> None:
        """``is_reported`` says that the process has refused to start, in one line that standard error has already."""
        super().__init__(message)
        self.is_reported = is_reported


class Supervision:
    """The supervised process's side. Without a supervisor only signals end it, and a service manager is told."""

    def __init__(self, fd: int | None) -> None:
        self._socket = socket.socket(fileno=fd) if fd is not None else None
        _own.append(self)
        self.admin_key = _receive_key(self._socket) if self._socket is not None else ""
        """What operators show; empty without a supervisor."""
        self._wake, self._waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(self._waker)
        self._stopping = False
        self._status = 0
        signal.signal(signal.SIGTERM, self._stop)
        if self._socket is not None:  # an interrupt is for the supervisor, which ends its processes in their order
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # the process that has started this one has not

    @property
    def is_supervised(self) -> bool:
        return self._socket is not None

    def end_at_interrupt(self) -> None:
        """Have SIGINT end ``wait``, from when on the process can end in order. ``ready`` does so too."""
        if self._socket is None:
            signal.signal(signal.SIGINT, self._stop)

    def ready(self, words: str = "") -> None:
        """Tell the supervisor, or the service manager, that the process serves; without a supervisor tell the user in
        ``words``.
        """
        self.end_at_interrupt()
        if self._socket is None:
            try:
                notify_manager(SERVES)
            except OSError as error:  # the variable may be another process's; a manager that waits gives up by itself
                words = f"{error}\n{words}" if words else str(error)
            if words:
                with contextlib.suppress(OSError):  # nobody reads it
                    print(words, file=sys.stderr, flush=True)
            return
        with contextlib.suppress(OSError):  # the supervisor has ended; wait() will see it
            self._socket.send(READY)

    def exit(self) -> None:
        """Have ``wait`` return EXIT_STATUS, upon which the process is started again. May be called by any thread."""
        self._status = EXIT_STATUS
        self._stopping = True
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes as well
            os.write(self._waker, READY)

    def leave_reason(self, reason: str) -> None:
        """Have the supervisor say why this process, which ends now, has ended."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.send(_REASON + reason.encode()[:_LONGEST_REASON], socket.MSG_DONTWAIT)

    def give_up(self) -> None:
        """As ``exit``, for a process that cannot go on: it ends even if what has failed keeps it from shutting down."""
        self.exit()
        end_for_certain()

    def wait(self) -> int:
        """Sleep until SIGTERM or SIGINT arrives, the supervisor ends, or ``exit`` is called.

        Returns the status with which the process is to exit. A supervisor or service manager that wants to know is told
        that the process works: it ends one whose interpreter a driver never lets go.
        """
        pause = seconds_between_signs()
        wakers: list[int] = [self._wake]
        if self._socket is not None:
            wakers.append(self._socket.fileno())
        while not self._stopping:
            readable, _, _ = select.select(wakers, [], [], pause)
            if pause is not None:
                with contextlib.suppress(OSError):  # the manager starts again itself; wait() sees a supervisor's end
                    self._give_sign()
            if not readable:
                continue
            if self._wake not in readable:
                break
            os.read(self._wake, _PIPE_BYTES)  # other signals wake it too; their handlers have run when this returns
        if self._socket is None:
            with contextlib.suppress(OSError):  # the process ends anyway
                notify_manager(ENDS)
        return self._status

    def _give_sign(self) -> None:
        if self._socket is None:
            notify_manager(WORKS)
        else:
            self._socket.send(_WORKS, socket.MSG_DONTWAIT)

    def _stop(self, *_: object) -> None:
        self._stopping = True


_own: list[Supervision] = []
"""That of this process, if it has one."""


def end_at_once(reason: str) -> NoReturn:
    """End this process with EXIT_STATUS in the middle of what it does; its supervisor says the reason."""
    for supervision in _own:
        supervision.leave_reason(reason)
    sys.stderr.flush()
    os._exit(EXIT_STATUS)


def end_for_certain() -> None:
    """Let this process, which is about to end, not take more than a few seconds for it. It exits with EXIT_STATUS."""

    def end() -> None:
        awaited([], None, _STOP_SECONDS, ProcessorTime(os.getpid()))
        os._exit(EXIT_STATUS)

    BriefThread(end, "end").start()


def add_supervision_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option by which a supervisor hands over its socket."""
    parser.add_argument("--supervisor", type=int, metavar="FD", help=argparse.SUPPRESS)


def send_admin_key(supervised: socket.socket, key: str) -> None:
    """Hand a process its admin key over the supervisor's end, before the process starts. Raises OSError."""
    supervised.sendall(key.encode() + _KEY_END)


def _receive_key(supervisor: socket.socket) -> str:
    """Receive the admin key, which the supervisor has sent before it started the process; empty if it has ended."""
    received = b""
    while not received.endswith(_KEY_END) and len(received) < _LONGEST_KEY:
        some = supervisor.recv(_LONGEST_KEY - len(received))
        if not some:
            return ""
        received += some
    return received.removesuffix(_KEY_END).decode()


class LaunchedProcess(NamedTuple):
    """A process that has just been started, and what it writes, if that is read here."""

    process: ForkedProcess | subprocess.Popen[bytes]
    output: IO[bytes] | None


class Child:
    """A supervised process: ``python -m MODULE ARGUMENTS…``. It ends when this object is stopped or collected."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        stderr: int | None = None,
        inherited: Sequence[int] = (),
        admin_key: str = "",
        heard: Callable[[str], None] | None = None,
        variables: Mapping[str, str] | None = None,
        zygote: Zygote | None = None,
        hang_seconds: float = HANG_SECONDS,
    ) -> None:
        """Start the process, which inherits the descriptors of these numbers.

        It gets its admin key over the socket pair, where no other process sees it: a random one if none is given.
        ``heard`` is called with each line of its standard error, which also goes to this process's own. ``variables``
        are added to its environment. With a ``zygote`` it is forked from that if it can be, as one for which no
        ``stderr`` is given. For ``hang_seconds`` see ``await_end``; with 0 it never hangs.
        Raises OSError, or ValueError if the key is not one.
        """
        environment = {**os.environ, **(variables or {}), **watchdog_variables(hang_seconds)}

        def launch(theirs: int) -> LaunchedProcess:
            forked = None if zygote is None else _forked(zygote, module, arguments, theirs, environment, inherited)
            if forked is not None:
                return LaunchedProcess(forked, forked.stderr)
            with interrupts_blocked():
                process = subprocess.Popen(
                    [*self.command, "--supervisor", str(theirs)],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE if stderr is None else stderr,
                    pass_fds=[theirs, *inherited],
                    env=environment,
                )
            return LaunchedProcess(process, process.stderr)

        self._gives_signs = True
        self._launch((sys.executable, "-m", module, *arguments), launch, admin_key, heard, hang_seconds)
        self.name = " ".join([module, *arguments])

    def _launch(
        self,
        command: tuple[str, ...],
        launch: Callable[[int], LaunchedProcess],
        admin_key: str,
        heard: Callable[[str], None] | None,
        hang_seconds: float,
    ) -> None:
        """Start a process, which is given the number of its end of the socket pair, and watch it. Raises as above."""
        self.admin_key = checked_admin_key(admin_key) if admin_key else new_admin_key()
        self.command = command
        self.name = " ".join(command)
        self._reason = ""
        self.hung = False
        """True if it was killed since it hung."""
        self._hang_seconds = hang_seconds
        self._said: list[str] = []
        self._heard = heard
        self._reader: LastingThread | None = None
        self._socket, theirs = socket.socketpair()
        with theirs:
            send_admin_key(self._socket, self.admin_key)
            self.process, output = launch(theirs.fileno())
        try:
            self._handle = os.pidfd_open(self.process.pid)
            weakref.finalize(self, os.close, self._handle)
            if output is not None:
                self._reader = LastingThread(partial(self._read, output), f"stderr-{self.process.pid}")
                self._reader.start()
        except (OSError, RuntimeError) as error:  # no descriptor or no thread is left
            self.process.kill()
            self.process.wait()
            self._socket.close()
            if output is not None:
                output.close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise OSError(f"cannot watch {self.name}: {reason}") from error

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_until_ready(self, seconds: float = 60.0, interrupt: int | None = None) -> None:
        """Wait until the process serves. Raises StartError if it ends instead, or does not serve within ``seconds``.

        Only the time counts in which it had a processor if it wanted one (see ``ProcessorTime``).
        Raises StartError also if the descriptor ``interrupt`` becomes readable first; then the process may still run.
        """
        readable = awaited([self._socket.fileno()], interrupt, seconds, self._its_time())
        if readable is None:
            self.stop()
            raise StartError(f"{self.name} did not serve within {seconds:.0f} s{self._last_words()}")
        if not readable:
            raise StartError(f"{self.name} was to end before it served")
        if self._received(1) != READY:
            raise self._start_error()

    def await_end(self, interrupt: int) -> bool:
        """Wait until the process has ended. Returns False if the descriptor ``interrupt`` becomes readable first.

        The process, which serves, hangs if it gives no sign of life for ``hang_seconds``: then it is killed. One that a
        signal has stopped, or that a debugger traces, is left alone, and so is a foreign one that has never given any.
        """
        tick = self._hang_seconds / _TICKS if self._hang_seconds else None
        heard, silence, its_time = [self._socket.fileno()], 0.0, self._its_time()
        while True:
            readable = awaited([self._handle, *heard], interrupt, tick)
            if tick is not None:
                passed = its_time.passed(_LONGEST_TICK * tick)
            if readable is None and tick is not None:
                silence += passed
                is_late = silence > self._hang_seconds / 2
                if not self._gives_signs or (is_late and is_held(self.pid)):
                    silence = 0.0
                if silence >= self._hang_seconds and not self.hung:
                    self.hung = True
                    self.process.kill()
            elif not readable:
                return False
            elif self._handle in readable:
                while self._hears():
                    pass
                return True
            else:
                silence = 0.0
                if not self._hears():  # it ends
                    heard.clear()

    def _hears(self) -> bool:
        """Take what the process says; return False if it says nothing, or has closed its end."""
        said = self._received(_PIPE_BYTES)
        signs, has_reason, reason = said.partition(_REASON)
        self._gives_signs |= _WORKS in signs
        if has_reason:
            self._reason = reason.decode(errors="replace")
        return bool(said)

    def ended_in_words(self, status: int) -> str:
        if self.hung:
            return f"gave no sign of life for {self._hang_seconds:g} s and was killed"
        if self._reason and status == EXIT_STATUS:
            return f"ended itself: {self._reason}"
        return ended_in_words(status)

    def ask_to_end(self) -> None:
        """Have the process end, and do not wait."""
        self._socket.close()

    def stop(self, seconds: float = _STOP_SECONDS) -> int:
        """Ask the process to end, kill it after ``seconds`` in which it could have, and return its exit status."""
        self.ask_to_end()
        if awaited([self._handle], None, seconds, self._its_time()) is None:
            self.process.kill()
        status = self.process.wait()
        if self._reader is not None:
            self._reader.join(_READER_SECONDS)
        return status

    def said(self) -> str:
        """Return the last lines that the process wrote to standard error."""
        return "".join(self._said[-20:])

    def _read(self, stderr: IO[bytes]) -> None:
        while line := stderr.readline(_LONGEST_LINE):
            text = line.decode(errors="replace")
            self._said.append(text)
            del self._said[:-100]
            if self._heard is not None:
                try:
                    self._heard(text)
                except Exception:  # a pipe that nobody reads would stop the process
                    _log.exception("a line of a process was lost", process_id=self.process.pid)
            STDERR.write(text)
        stderr.close()

    def _its_time(self) -> ProcessorTime:
        return ProcessorTime(self.pid, os.getpid())

    def _received(self, most: int) -> bytes:
        """Return what the process has written to its end of the socket pair, without waiting for more."""
        try:
            return self._socket.recv(most, socket.MSG_DONTWAIT)
        except OSError:  # with a key that it has not read
            return b""

    def _start_error(self) -> StartError:
        """The error that it has ended, or ends, instead of serving."""
        status = self.stop()
        message = f"{self.name} {ended_in_words(status)}{self._last_words()}"
        return StartError(message, is_reported=status == _REFUSED and len(self._said) == 1)

    def _last_words(self) -> str:
        if self._reader is not None and self.process.poll() is not None:
            self._reader.join(_READER_SECONDS)
        said = self.said().strip()
        return f": {said}" if said else ""


def _forked(
    zygote: Zygote,
    module: str,
    arguments: Sequence[str],
    supervision: int,
    environment: Mapping[str, str],
    inherited: Sequence[int],
) -> ForkedProcess | None:
    """Return None if the zygote cannot fork the process, which is then started without it."""
    try:
        return zygote.fork(module, arguments, supervision, environment, inherited)
    except OSError as error:
        _log.warning("a process starts without a zygote", module=module, reason=str(error))
        return None


def stop_all(children: Sequence[Child]) -> None:
    """Ask all processes to end, last first, and then wait for each."""
    for child in reversed(children):
        child.ask_to_end()
    left, time = _STOP_SECONDS, ProcessorTime(os.getpid(), *[child.pid for child in children])
    for child in reversed(children):
        child.stop(max(0.1, left))
        left -= time.passed()


def ended_in_words(status: int) -> str:
    """Say how a process ended, by its status as ``subprocess`` has it: "was killed by SIGSEGV"."""
    if status == UNKNOWN_STATUS:
        return "ended after its zygote, so that nobody knows how"
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"was killed by signal {-status}"


def is_held(pid: int) -> bool:
    """Return whether a signal has stopped a process, or a debugger traces it, or that cannot be seen for lack."""
    try:
        return is_stopped(pid) or is_traced(pid)
    except OSError:
        return True


def is_traced(pid: int) -> bool:
    """Return whether a debugger traces a process, and may have stopped it. False if the process cannot be seen.

    Raises OSError if this process has no descriptor or memory left to look.
    """
    return status_words(_facts_of(pid, "status"), "TracerPid") not in ([], ["0"])


def is_stopped(pid: int) -> bool:
    """Return whether a signal such as SIGSTOP has stopped a process. Raises OSError as ``is_traced``."""
    return _facts_of(pid, "stat").rpartition(b")")[2].split()[:1] == [b"T"]


def _facts_of(pid: int, name: str) -> bytes:
    """A file of /proc/PID; empty if the process cannot be seen."""
    try:
        return FOR_LOOKS.used_for(Path(f"/proc/{pid}/{name}").read_bytes)
    except OSError as error:
        if lack_of(error):
            raise
        return b""


def awaited(
    wanted: Sequence[int], interrupt: int | None, seconds: float | None = None, time: ProcessorTime | None = None
) -> list[int] | None:
    """Wait until a wanted descriptor is readable, and return those that are; none of them if ``interrupt`` is first.

    Returns None after ``seconds``, of which only those count that ``time`` counts, if it is given.
    """
    poll = select.poll()  # select() takes descriptors below 1024 only
    for descriptor in (*wanted, *([] if interrupt is None else [interrupt])):
        poll.register(descriptor, select.POLLIN)
    left = max(0.0, seconds or 0.0)
    tick = left if time is None else left / _TICKS
    while True:
        ready = [descriptor for descriptor, _ in poll.poll(None if seconds is None else tick * 1000)]
        if ready:
            return [] if interrupt in ready else ready
        left -= tick if time is None else time.passed(_LONGEST_TICK * tick)
        if left <= 0:
            return None
