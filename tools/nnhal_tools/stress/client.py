"""The supervisor's side of a session's process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from random import Random

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal_hosting.supervision import ended_in_words
from nnhal_tools.stress.messages import Message, ProgressEvent, SessionEnding, decode
from nnhal_tools.stress.report import CUT_OFF, StressFinding, StressReport

_THREADS = (2, 3)
_KILLED = 0.5
"""The share of sessions that are killed."""
_LIFE_SECONDS = (0.02, 5.0)
"""Range of the time from a session's readiness to its kill."""
_STEPS = (20, 400)
_PRINTED_BYTES = 16_000
"""How much a violation tells of what a process printed before it ended."""


@dataclass
class _Doing:
    """The present action of a thread."""

    action: str = ""
    step: int = 0
    note: str = ""
    heard_at: float = field(default_factory=time.monotonic)


class StressClient:
    """One session's process. All its choices follow from its seed."""

    def __init__(self, endpoint: Endpoint, seed: int, report: StressReport) -> None:
        """Start the process. Raises OSError."""
        random = Random(seed)
        self.seed = seed
        self.killed = False
        self.is_ready = False
        """Whether its threads are at work."""
        self._report = report
        self._life = random.uniform(*_LIFE_SECONDS) if random.random() < _KILLED else None
        self._ending = random.choice(
            (SessionEnding.RELEASE, SessionEnding.RELEASE, SessionEnding.CLOSE, SessionEnding.EXIT)
        )
        self._kill_at: float | None = None
        self._doing: dict[int, _Doing] = {}
        self._over = False
        self._partial = b""
        self._printed = Descriptor(os.memfd_create("nnhal-stress-printed", os.MFD_CLOEXEC))
        self.reader, writer = os.pipe2(os.O_CLOEXEC)
        try:
            arguments = {
                "--seed": seed,
                "--pipe": writer,
                "--steps": random.randint(*_STEPS),
                "--threads": random.choice(_THREADS),
                "--ending": self._ending.value,
            }
            words = [str(word) for pair in arguments.items() for word in pair]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nnhal_tools.stress.session", str(endpoint.directory), *words],
                stdin=subprocess.DEVNULL,
                stderr=self._printed.fileno(),
                pass_fds=[writer],
            )
        except BaseException:
            os.close(self.reader)
            raise
        finally:
            os.close(writer)
        self.heard_at = time.monotonic()

    def read(self) -> bool:
        """Read its messages. Returns False once the process has ended."""
        chunk = os.read(self.reader, 1 << 16)
        self.heard_at = time.monotonic()
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        for line in lines:
            self._take(decode(line))
        return bool(chunk)

    def mind(self, hang_seconds: float) -> None:
        """Kill the process if its time has come, or if it makes no progress, which is a violation."""
        now = time.monotonic()
        if self._kill_at is not None and now >= self._kill_at:
            self.kill()
        busy = [doing.heard_at for doing in self._doing.values() if doing.action]
        if now - min(busy, default=self.heard_at) > hang_seconds and not self.killed:
            self._find_all(f"no progress for {hang_seconds:.0f} s")
            self.kill()

    def stop(self) -> None:
        """Ask the process to end. One that is not ready yet is killed."""
        self._kill_at = None
        if self.is_ready:
            self._process.send_signal(signal.SIGTERM)
        else:
            self.kill()

    def kill(self) -> None:
        """Kill the process."""
        self.killed = True
        self._kill_at = None
        self._process.kill()

    def end(self) -> None:
        """Note how the process ended."""
        os.close(self.reader)
        status = self._process.wait()
        for doing in self._doing.values():
            if doing.action:
                self._report.count(doing.action, CUT_OFF)
        asked_too_late = self._over and status == -signal.SIGTERM  # its signal handlers were gone already
        if not self.killed and not (self._over and status == 0) and not asked_too_late:
            self._find_all(f"the session's process {ended_in_words(status)}{self._last_words()}")
        self._report.endings["killed" if self.killed else self._ending.value] += 1

    def _take(self, message: Message) -> None:
        doing = self._doing.setdefault(message.thread, _Doing())
        doing.heard_at = time.monotonic()
        if message.event is ProgressEvent.READY:
            self.is_ready = True
            if self._life is not None:
                self._kill_at = time.monotonic() + self._life
        elif message.event is ProgressEvent.BEGIN:
            self._doing[message.thread] = _Doing(message.text, message.step)
        elif message.event is ProgressEvent.NOTE:
            doing.note = message.text
        elif message.event is ProgressEvent.END:
            self._report.count(doing.action, message.text)
            doing.action = ""
        elif message.event is ProgressEvent.VIOLATION:
            self._find(message.thread, doing, message.text)
        elif message.event is ProgressEvent.OVER:
            self._over = True

    def _last_words(self) -> str:
        """What the process has printed: of a crash, where each thread was."""
        printed = os.pread(self._printed.fileno(), _PRINTED_BYTES, 0).decode(errors="replace").strip()
        return f"; it printed:\n{printed}" if printed else ", and printed nothing"

    def _find_all(self, text: str) -> None:
        """Note a violation that cannot be attributed to one thread."""
        threads = {number: doing for number, doing in self._doing.items() if doing.action} or {0: _Doing()}
        for number, doing in threads.items():
            self._find(number, doing, text)

    def _find(self, thread: int, doing: _Doing, text: str) -> None:
        self._report.findings.append(StressFinding(self.seed, thread, doing.step, doing.action, doing.note, text))
