"""One process under observation: the session with it, and what it said last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from nnhal.clock import now_ns
from nnhal.errors import MissingMethodError, NnhalError
from nnhal.remote import DeviceDescription, DeviceIdentity, RemoteDevice
from nnhal.remote.admin import CLIENT_NAME, DeviceAdmin, FrameworkAdmin
from nnhal.v1 import admin_pb2, framework_admin_pb2
from nnhal_pages.operating.snapshot import Detail, ObservedProcess

_OF_SESSIONS = ("sessions", "pools", "buffers", "fences")
"""What a brief answer leaves out: what is known of it stays known."""
_SILENT_SECONDS = 1.5
"""After so long without an answer a page says that a process is silent."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Last answers of a process. What it was not asked for is None."""

    process: admin_pb2.GetProcessResponse | None = None
    device: admin_pb2.GetDeviceResponse | None = None
    limits: Sequence[admin_pb2.OperationLimit] = ()
    identity: DeviceIdentity | None = None
    description: DeviceDescription | None = None
    framework: framework_admin_pb2.GetFrameworkResponse | None = None
    runs: framework_admin_pb2.GetRunsResponse | None = None
    lack: str = ""
    """Why it says less than other processes although it answers."""


class ProcessObserver:
    """Asks one process, one question after the other, in threads of a pool. For one thread only."""

    def __init__(
        self,
        target: ObservedProcess,
        key: str,
        pool: ThreadPoolExecutor,
        name: str = CLIENT_NAME,
        patience: float = 2.0,
        most_runs: int = 200,
    ) -> None:
        """``key`` is the process's admin key, ``name`` what the client calls itself.

        ``patience`` is how many seconds the process may be silent during a call. ``most_runs`` says how many runs that
        went well a framework is asked for at a time, 0 for all: a page shows half as many.
        """
        self.target = target
        self.answers = Answers()
        self._key, self._name, self._patience = key, name, patience
        self._pool, self._most_runs = pool, most_runs
        self._admin: DeviceAdmin | FrameworkAdmin | None = None
        self._pending: Future[Answers] | None = None
        self._asked = 0.0
        self._silence = "it has not been asked yet"
        self._last_run = self._last_event = 0

    @property
    def awaited(self) -> Future[Answers] | None:
        """The question that has no answer yet, unless the process seems to have been stopped."""
        return self._pending if time.monotonic() - self._asked <= _SILENT_SECONDS else None

    def ask(self, wanted: Detail) -> bool:
        """Ask for some details, if the last question has been answered. Whether the process is one to be asked."""
        if not self.target.directory or self.target.kind not in ("device", "framework"):
            self._silence = ""
            return False
        if self.target.supervised is not None and not self.target.supervised.pid and self._pending is None:
            self._silence = "it does not run"
            return False
        if self._pending is None:
            self._asked = time.monotonic()
            self._pending = self._pool.submit(self._question, wanted)
        return True

    def take(self) -> ObservedProcess:
        """Take the answer if there is one, and describe the process as it is known now."""
        if self._pending is not None and self._pending.done():
            pending, self._pending = self._pending, None
            error = pending.exception()
            if error is None:
                self.answers, self._silence = pending.result(), ""
            elif isinstance(error, NnhalError):
                self._silence = str(error)
            else:
                raise error
        elif self._pending is not None and time.monotonic() - self._asked > _SILENT_SECONDS:
            self._silence = f"it has not answered for {time.monotonic() - self._asked:.0f} s; it may have been stopped"
        answers = self.answers
        return replace(
            self.target,
            silence=self._silence,
            lack=answers.lack,
            process=answers.process,
            device=answers.device,
            limits=answers.limits,
            identity=answers.identity,
            description=answers.description,
        )

    def close(self) -> None:
        """End the session, once the last question has been answered."""
        if self._pending is not None:
            self._pending.add_done_callback(lambda _: self._hang_up())
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        admin, self._admin = self._admin, None
        if admin is not None:
            with suppress(NnhalError):
                admin.close()

    def _question(self, wanted: Detail) -> Answers:
        """Ask the process. Raises NnhalError."""
        if self._admin is not None and self._admin.gone:
            self._hang_up()
        answers = self.answers
        if self._admin is None:
            answers = self._connect()
        admin = self._admin
        if isinstance(admin, DeviceAdmin):
            with suppress(MissingMethodError):  # a device may tell operators nothing, and is used all the same
                device = admin.device()
                device.at_ns = device.at_ns or now_ns()  # one that is not of nnhal need not say it
                answers = replace(answers, device=device)
        elif isinstance(admin, FrameworkAdmin):
            framework = admin.framework(self._last_event)
            runs = admin.runs(self._last_run, most=self._most_runs) if wanted & (Detail.RUNS | Detail.CLIENTS) else None
            self._last_event = max([self._last_event, *(event.number for event in framework.events)])
            if runs is not None:
                self._last_run = max([self._last_run, *(run.number for run in runs.finished)])
            answers = replace(answers, framework=framework, runs=runs)
        if wanted & (Detail.PROCESSES | Detail.SESSIONS) and admin is not None:
            try:
                answer, known = admin.process(brief=Detail.SESSIONS not in wanted), answers.process
            except MissingMethodError as error:
                return replace(answers, lack=f"no admin service: {error}")
            if Detail.SESSIONS not in wanted and known is not None:
                for name in _OF_SESSIONS:
                    getattr(answer, name).MergeFrom(getattr(known, name))
            answers = replace(answers, process=answer)
        return answers

    def _connect(self) -> Answers:
        endpoint = self.target.endpoint
        if self.target.kind == "framework":
            self._admin = FrameworkAdmin(endpoint, self._key, self._name, self._patience)
            self._last_run = self._last_event = 0
            return Answers()
        remote = RemoteDevice(endpoint, self._name, self._patience)
        try:
            identity, description = remote.identity(self._patience), None
            with suppress(NnhalError):  # a device without a backend says no more than the HAL
                description = remote.describe()
        finally:
            remote.close()
        admin = self._admin = DeviceAdmin(endpoint, self._key, self._name, self._patience)
        answers = Answers(identity=identity, description=description)
        with suppress(MissingMethodError):
            answers = replace(answers, limits=admin.device(with_limits=True).limits)
        return answers
