"""A recording while it is made: notes become events, in a thread of its own."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import cast
from weakref import WeakKeyDictionary, WeakSet

from nnhal.arrays import Bytes
from nnhal.clock import now_ns
from nnhal.codec import config_to_wire, result_to_wire
from nnhal.codec.lengths import lengths_to_wire
from nnhal.descriptor import Descriptor
from nnhal.errors import HalError
from nnhal.recording import INVALID_DEADLINE, VERSION, WEIGHT_BYTES, RecordingWriter, recorded_model
from nnhal.threads import BriefThread
from nnhal.types import NO_DEADLINE, ExecutionConfig, ExecutionResult
from nnhal.types.layout import Dimensions
from nnhal.v1 import recording_pb2 as wire
from nnhal.v1 import types_pb2
from nnhal_devices.driver import Driver
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.recording.notes import NoteLimits, Notes, RecordedExecution, RunNote
from nnhal_devices.host.recording.requests import RequestForm, recorded_request
from nnhal_devices.host.runs.prepared_model import PreparedModel
from nnhal_devices.host.sessions.client_session import ClientSession
from nnhal_hosting.logs import get_logger

_log = get_logger(__name__)
_PAUSE_SECONDS = 0.05
_BATCH = 4096
Events = list[wire.RecordedEvent]


class ActiveRecording:
    """One recording. ``notes`` takes what is to be recorded, in any thread."""

    def __init__(
        self,
        file: Descriptor,
        driver: Driver,
        omissions: wire.RecordingOmissions,
        max_bytes: int,
        limits: NoteLimits,
    ) -> None:
        """Begin the file. Raises OSError."""
        self.notes = Notes(limits)
        self.omissions = omissions
        self.wants_contents = not omissions.contents
        self._began_ns = now_ns()
        self._file = file.duplicate()
        self._calls = self._full_calls = self._full_contents = 0
        self._failure = ""
        self._numbers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._meeting = threading.Lock()
        self._met: WeakSet[DeviceBuffer] = WeakSet()
        self._counts: dict[type, int] = {}
        self._plain: dict[tuple[RecordedExecution, str], tuple[wire.RecordedEvent, int]] = {}
        """The events of plain runs in the batch that is being written, and when the last of each began."""
        header = wire.RecordingHeader(
            version=VERSION,
            nnhal_version=_own_version(),
            driver=driver.name,
            driver_version=driver.version,
            started_unix_ms=time.time_ns() // 1_000_000,
            omissions=omissions,
        )
        self._writer = RecordingWriter(self._file.fileno(), header, max_bytes)
        self._ending = threading.Event()
        self._thread = BriefThread(self._write, "recording")
        self._thread.start()

    @property
    def figures(self) -> wire.RecordingFigures:
        """Return what it has by now."""
        return wire.RecordingFigures(
            calls=self._calls,
            dropped_calls=self.notes.dropped_calls + self._full_calls,
            contents=self._writer.contents,
            dropped_contents=self.notes.dropped_contents + self._full_contents,
            bytes=self._writer.bytes,
            failure=self._failure,
        )

    def end(self) -> None:
        """Have what has been noted be written, and the file be ended."""
        self._ending.set()

    def wait(self) -> None:
        """Wait until the file is complete, after ``end``."""
        self._thread.join()

    def give_up(self, error: Exception) -> None:
        """Record no more, since something went wrong with the recording: whatever is recorded goes on."""
        self.notes.stop()
        if self._failure:
            return
        if isinstance(error, OSError):
            self._failure = f"the file cannot be written: {error.strerror}"
            _log.warning("a recording failed", reason=self._failure)
        else:
            self._failure = "the recording failed; the log of the device has the reason"
            _log.error("a recording failed", exc_info=error)

    def event(self, method: str, client: ClientSession | None, started_ns: int, ended_ns: int) -> wire.RecordedEvent:
        """Return the event of a call that went well, whose session is known from now on or was before."""
        return wire.RecordedEvent(
            started_ns=started_ns - self._began_ns,
            ended_ns=ended_ns - self._began_ns,
            session=0 if client is None else self._session(client),
            method=method,
        )

    def fail(self, event: wire.RecordedEvent, error: HalError) -> None:
        """Have an event tell of an error."""
        event.status = types_pb2.ErrorStatus.ValueType(error.status)
        if not self.omissions.names:
            event.message = error.message

    def number_of(self, item: object) -> int:
        """Return the number of an object, which it gets with the first question. In the writing thread only."""
        number = self._numbers.get(item)
        if number is None:
            number = self._numbers[item] = self._counts[type(item)] = self._counts.get(type(item), 0) + 1
        return number

    def is_known(self, item: object) -> bool:
        """Return whether an object has a number, and its event thus was made. In the writing thread only."""
        return item in self._numbers

    def constant(self, data: Bytes) -> wire.RecordedContent:
        """Write a constant. Raises OSError."""
        if self.omissions.weights and len(data) > WEIGHT_BYTES:
            digest = hashlib.sha256(data.data).digest()
            return wire.RecordedContent(digest=digest, size=len(data), is_left_out=True)
        return self._written(data)

    def content(self, value: Bytes | int | None) -> wire.RecordedContent:
        """Write the value of an argument or a buffer, if there is one. Raises OSError."""
        if value is None:
            return wire.RecordedContent()
        if isinstance(value, int):
            return wire.RecordedContent(size=value, is_left_out=True)
        return self._written(value)

    def earlier_model(self, prepared: PreparedModel) -> Events:
        """Return the event of a prepared model that the recording does not know; none if it does."""
        if self.is_known(prepared):
            return []
        event = self._earlier("Device.PrepareModel", client_of(prepared))
        event.preparation.CopyFrom(
            wire.RecordedPreparation(
                prepared_model=self.number_of(prepared),
                model=recorded_model(prepared.model, self.constant),
                priority=types_pb2.Priority.ValueType(prepared.priority),
                is_earlier=True,
            )
        )
        return [event]

    def meet(self, buffer: DeviceBuffer, client: ClientSession) -> None:
        """Note a buffer that was allocated before the recording began, with what it holds, unless it has been met.

        Called in the thread that is about to use it.
        """
        if self.is_new(buffer):
            held, models = None, client.all(PreparedModel)
            with suppress(HalError, MemoryError):  # the recording does without
                held = buffer.values()
            self.notes.add(lambda: self._earlier_buffer(buffer, held, models, client))

    def is_new(self, buffer: DeviceBuffer) -> bool:
        """Return whether a buffer had not been met before this question."""
        with self._meeting:
            if buffer in self._met:
                return False
            self._met.add(buffer)
            return True

    def _earlier_buffer(
        self,
        buffer: DeviceBuffer,
        held: tuple[Bytes, Dimensions] | None,
        models: Sequence[PreparedModel],
        client: ClientSession,
    ) -> Events:
        event, events = self._earlier("Device.Allocate", client), []
        about = event.allocation
        about.buffer, about.is_earlier = self.number_of(buffer), True
        about.desc.dimensions.extend(buffer.initial_dimensions)
        about.largest_dimensions.extend(buffer.largest_dimensions)
        if held is not None:
            values, dimensions = held
            about.value.CopyFrom(self.content(values if self.wants_contents else len(values)))
            about.dimensions.extend(dimensions)
        by_identity = {one.identity: one for one in models}
        known = sorted((role for role in buffer.roles if role.prepared in by_identity), key=lambda role: role.index)
        used = list(dict.fromkeys(role.prepared for role in known))
        for identity in used:
            events += self.earlier_model(by_identity[identity])
            about.prepared_models.append(self.number_of(by_identity[identity]))
        for role in known:
            roles = about.output_roles if role.is_output else about.input_roles
            roles.add(model_index=used.index(role.prepared), io_index=role.index, probability=1.0)
        return [*events, event]

    def request(self, execution: RecordedExecution, method: str, started_ns: int, ended_ns: int) -> Events:
        """Return the event of a request that was bound, with those of what it needs; none if it is known."""
        if self.is_known(execution):
            return []
        prepared, form, config = execution.prepared_model, execution.form, execution.config
        events = self.request_events(prepared, form, config, None, method, started_ns, ended_ns)
        events[-1].request.request = self.number_of(execution)
        return events

    def request_events(
        self,
        prepared: PreparedModel,
        form: RequestForm,
        config: ExecutionConfig,
        error: HalError | None,
        method: str,
        started_ns: int,
        ended_ns: int,
    ) -> Events:
        """Return the event of a request that has no number yet, with those of what it needs."""
        events = self.earlier_model(prepared)
        event = self.event(method, client_of(prepared), started_ns, ended_ns)
        event.request.CopyFrom(recorded_request(form, self.number_of))
        event.request.prepared_model = self.number_of(prepared)
        event.request.config.CopyFrom(config_to_wire(config))
        if error is not None:
            self.fail(event, error)
        return [*events, event]

    def _session(self, client: ClientSession) -> int:
        """The number of a session, whose beginning is written with the first call."""
        if self.is_known(client):
            return self.number_of(client)
        session = client.session
        opened = wire.RecordedEvent(
            started_ns=session.opened_ns - self._began_ns,
            ended_ns=session.opened_ns - self._began_ns,
            session=self.number_of(client),
            method="Session.Open",
            session_opened=wire.RecordedSession(client_name="" if self.omissions.names else session.client_name),
        )
        self._writer.events([opened])
        number = opened.session
        session.on_close(lambda: self.notes.add(lambda: self._end_of_session(number)))
        return number

    def _end_of_session(self, number: int) -> Events:
        ended = now_ns() - self._began_ns
        return [
            wire.RecordedEvent(
                started_ns=ended,
                ended_ns=ended,
                session=number,
                method="Session.Close",
                session_ended=wire.RecordedSessionEnd(),
            )
        ]

    def _earlier(self, method: str, client: ClientSession) -> wire.RecordedEvent:
        """The event of what was there before: just before the recording, and after its session had begun."""
        return self.event(method, client, self._began_ns - 1, self._began_ns - 1)

    def _written(self, data: Bytes) -> wire.RecordedContent:
        content = self._writer.content(data)
        self._full_contents += content.is_left_out
        return content

    def _write(self) -> None:
        """Write notes until the end, a batch at a time."""
        try:
            is_last = False
            while not is_last:
                is_last = self._ending.wait(_PAUSE_SECONDS)
                while self._write_batch():
                    pass
            if not self._failure:
                self.notes.stop(at_end=True)
                self._writer.end(self.figures)
        except Exception as error:
            self.give_up(error)
        finally:
            self.notes.stop()
            self._writer.close()
            self._file.close()

    def _write_batch(self) -> bool:
        """Write the oldest notes, and return whether there were any."""
        notes = self.notes.take(_BATCH)
        events: Events = []
        self._plain.clear()
        for note in notes:
            if isinstance(note, RunNote):
                events += self._run(note)
                self.notes.written(note.inputs)
                self.notes.written(note.outputs)
            else:
                events += note()
        if events:
            calls = sum(map(_calls_in, events))
            if self._writer.events(events):
                self._calls += calls
            else:
                self._full_calls += calls
        return bool(notes)

    def _run(self, note: RunNote) -> Events:
        """Return the events of an execution, with those of what it needs; none if an earlier event tells of it too."""
        key, is_plain = (note.execution, note.method), note.is_plain
        if is_plain and key in self._plain:
            event, last_ns = self._plain[key]
            event.again_ns.extend((note.started_ns - last_ns, note.ended_ns - note.started_ns))
            self._plain[key] = event, note.started_ns
            return []
        before = self.request(note.execution, "PreparedModel.CreateReusableExecution", note.started_ns, note.started_ns)
        event = self.event(note.method, client_of(note.execution.prepared_model), note.started_ns, note.ended_ns)
        about = event.execution
        about.request = self.number_of(note.execution)
        if note.deadline_ns != NO_DEADLINE:
            about.deadline_in_ns = deadline_in_ns(note.deadline_ns, note.started_ns)
        about.inputs.extend(map(self.content, note.inputs))
        about.outputs.extend(map(self.content, note.outputs))
        about.lengths.extend(lengths_to_wire(note.lengths))
        if isinstance(note.answer, ExecutionResult):
            about.result.CopyFrom(result_to_wire(note.answer))
        else:
            self.fail(event, note.answer)
        if is_plain:
            self._plain[key] = event, note.started_ns
        return [*before, event]


def client_of(prepared: PreparedModel) -> ClientSession:
    """The session that a prepared model belongs to."""
    return cast(ClientSession, prepared.owner)


def deadline_in_ns(deadline_ns: int, started_ns: int) -> int:
    """The nanoseconds from a call to its deadline, as recordings have them."""
    return INVALID_DEADLINE if deadline_ns < NO_DEADLINE else deadline_ns - started_ns


def _calls_in(event: wire.RecordedEvent) -> int:
    """Return how many calls an event stands for: none if it tells of what was before, or of a session."""
    is_beside = event.HasField("session_ended") or event.preparation.is_earlier or event.allocation.is_earlier
    return 0 if is_beside else 1 + len(event.again_ns) // 2


def _own_version() -> str:
    try:
        return version("nnhal")
    except PackageNotFoundError:
        return ""
