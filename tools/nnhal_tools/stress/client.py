"""The supervisor's side of a session's process."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass, field

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import ended_in_words
from nnhal_hosting.zygote import Zygote
from nnhal_tools.stress.messages import Message, ProgressEvent, decode
from nnhal_tools.stress.report import CUT_OFF, StressFinding, StressReport
from nnhal_tools.stress.script import ENDINGS, ClientScript, SessionEnding

_SESSION = "nnhal_tools.stress.session"
_ZYGOTE = Zygote(["nnhal_tools.stress.actions"])
"""Has imported what sessions need, which takes longer than most of them live."""
_PRINTED_BYTES = 16_000
"""How much a violation tells of what a process printed before it ended."""
_ENDED = {
    SessionEnding.RELEASE: "release",
    SessionEnding.KILL: "killed",
    SessionEnding.CLOSE: "close",
    SessionEnding.EXIT: "exit",
}
"""What a report calls the endings."""


@dataclass
class _Doing:
    """The present action of a thread."""

    action: str = ""
    step: int = 0
    note: str = ""
    heard_at: float = field(default_factory=time.monotonic)


class StressClient:
    """One session's process, which does what its script says."""

    def __init__(self, endpoint: Endpoint, script: ClientScript, report: StressReport) -> None:
        """Start the process. Raises OSError."""
        self.killed = False
        self.is_ready = False
        """Whether its threads are at work, or wait for ``start``."""
        self._script = script
        self._report = report
        self._begun = [0] * len(script.threads)
        report.begun.append(self._begun)
        self._doing: dict[int, _Doing] = {}
        self._ending = SessionEnding.RELEASE
        self._over = False
        self._partial = b""
        self._printed = _memory("nnhal-stress-printed")
        content = _memory("nnhal-stress-script")
        os.pwrite(content.fileno(), script.encode(), 0)
        self.reader, writer = os.pipe2(os.O_CLOEXEC)
        wait, start = map(Descriptor, os.pipe2(os.O_CLOEXEC))
        self._start: Descriptor | None = start
        ours, theirs = socket.socketpair()
        try:
            with ours, theirs:
                given = [content.fileno(), writer, wait.fileno(), self._printed.fileno()]
                socket.send_fds(ours, [b"1"], given)
                self._process = _ZYGOTE.fork(_SESSION, [str(endpoint.directory)], theirs.fileno(), os.environ)
        except BaseException:
            os.close(self.reader)
            raise
        finally:
            os.close(writer)
        self._process.stderr.close()
        self.heard_at = time.monotonic()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def start(self) -> None:
        """Let its threads begin as soon as it is ready."""
        if self._start is not None:
            self._start.close()
            self._start = None

    def read(self) -> bool:
        """Read its messages. Returns False once the process has ended."""
        chunk = os.read(self.reader, 1 << 16)
        self.heard_at = time.monotonic()
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._take(decode(line))
        return bool(chunk)

    def mind(self, hang_seconds: float) -> None:
        """Kill the process if it makes no progress, which is a violation."""
        now = time.monotonic()
        busy = [doing.heard_at for doing in self._doing.values() if doing.action]
        if now - min(busy, default=self.heard_at) > hang_seconds and not self.killed:
            self._find_all(f"no progress for {hang_seconds:.0f} s")
            self.kill()

    def stop(self) -> None:
        """Ask the process to end. One that is not ready yet is killed."""
        if self.is_ready:
            self._process.send_signal(signal.SIGTERM)
            self.start()
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self.killed = True
        self._process.kill()

    def end(self) -> None:
        """Note how the process ended."""
        os.close(self.reader)
        self.start()
        status = self._process.wait()
        for doing in self._doing.values():
            if doing.action:
                self._report.count(doing.action, CUT_OFF)
        asked_too_late = self._over and status == -signal.SIGTERM  # its signal handlers were gone already
        if not self.killed and not (self._over and status == 0) and not asked_too_late:
            self._find_all(f"the session's process {ended_in_words(status)}{self._last_words()}")
        self._report.endings["killed" if self.killed else _ENDED[self._ending]] += 1

    def _take(self, message: Message) -> None:
        doing = self._doing.setdefault(message.thread, _Doing())
        doing.heard_at = time.monotonic()
        if message.event is ProgressEvent.READY:
            self.is_ready = True
        elif message.event is ProgressEvent.BEGIN:
            self._begin(message)
        elif message.event is ProgressEvent.NOTE:
            doing.note = message.text
        elif message.event is ProgressEvent.END:
            self._report.count(doing.action, message.text)
            doing.action = ""
        elif message.event is ProgressEvent.VIOLATION:
            self._find(message.thread, doing, message.text)
        elif message.event is ProgressEvent.OVER:
            self._over = True

    def _begin(self, message: Message) -> None:
        self._doing[message.thread] = _Doing(message.text, message.step)
        if message.step < len(self._script.threads[message.thread]):  # after them comes the end
            self._begun[message.thread] = message.step + 1
        if message.text in ENDINGS:
            self._ending = ENDINGS[message.text]
            self.killed = self._ending is SessionEnding.KILL

    def _last_words(self) -> str:
        """Return what the process has printed: of a crash, where each thread was."""
        printed = os.pread(self._printed.fileno(), _PRINTED_BYTES, 0).decode(errors="replace").strip()
        return f"; it printed:\n{printed}" if printed else ", and printed nothing"

    def _find_all(self, text: str) -> None:
        """Note a violation that cannot be attributed to one thread."""
        threads = {number: doing for number, doing in self._doing.items() if doing.action} or {0: _Doing()}
        for number, doing in threads.items():
            self._find(number, doing, text)

    def _find(self, thread: int, doing: _Doing, text: str) -> None:
        where = (self._script.client, self._script.seed, thread, doing.step)
        self._report.findings.append(StressFinding(*where, doing.action, doing.note, text))


def _memory(name: str) -> Descriptor:
    return Descriptor(os.memfd_create(name, os.MFD_CLOEXEC))
