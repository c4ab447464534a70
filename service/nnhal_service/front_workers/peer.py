"""Calls between the framework's process and a front worker, both ways, over a socket pair that only these two hold.

Both ends are the same program of the same user, started by one another, so that a message is a pickle: whoever could
forge one could as well write the other's memory. Nothing that a client of a front worker sends is ever unpickled.
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.exhaustion import lack_of
from nnhal.link import Channel, ChannelClosedError, NoDescriptorError
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.threads import BriefThread
from nnhal_hosting.logs import get_logger
from nnhal_service.serving.errors import ErrorKind, ServingError

P = ParamSpec("P")
S = TypeVar("S")
R = TypeVar("R")
_HEAD = struct.Struct("=BQ")
"""The kind of a message, and the number of its call."""
_CALL, _RESULT, _ERROR = range(3)
_IN_FILE = 4
"""Added to the kind if the body is in a file, which is the message's first descriptor."""
_MOST_INLINE = MAX_MESSAGE_BYTES - _HEAD.size
_log = get_logger(__name__)


class ServedInterface(NamedTuple):
    """An object whose public methods the other end may call, in the threads of an executor."""

    target: object
    executor: Executor


class _Answer(NamedTuple):
    kind: int
    body: bytes
    descriptors: Sequence[Descriptor]


class Peer:
    """The other process. Each end calls methods of interfaces that the other serves. Safe to use from several threads.

    Arguments and results are copies, but descriptors in them are of the same open files.
    """

    def __init__(self, channel: Channel, served: Mapping[type, ServedInterface], gone: Callable[[], None]) -> None:
        """Take over ``channel``. ``gone`` is called once, in a thread of its own, when the other end has closed it."""
        self._channel = channel
        self._served = {interface.__qualname__: (interface, of) for interface, of in served.items()}
        self._gone = gone
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[int, Future[_Answer]] | None = {}
        self._thread = BriefThread(self._read, "front-peer")

    def start(self) -> None:
        """Begin to answer calls and to take answers."""
        self._thread.start()

    def ask(self, method: Callable[Concatenate[S, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a method of an interface, such as ``ModelRepository.ready``, of the other process.

        Raises what the method raises there, and UNAVAILABLE if the process is gone.
        """
        return self.begin(method, *args, **kwargs)(None)

    def begin(
        self, method: Callable[Concatenate[S, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> Callable[[float | None], R]:
        """Begin a call, and return a function that waits for its result, for so many seconds at most.

        The function raises as ``ask``, and TimeoutError.
        """
        number = next(self._numbers)
        answer: Future[_Answer] = Future()
        with self._lock:
            if self._waiting is None:
                raise _over()
            self._waiting[number] = answer
        self._send(_CALL, number, (method.__qualname__, args, kwargs))

        def result(seconds: float | None) -> R:
            try:
                kind, body, descriptors = answer.result(seconds)
            finally:
                self._forget(number)
            if kind == _ERROR:
                raise _load(body, descriptors)  # unnamed: this frame must not hold an error that holds this frame
            found: R = _load(body, descriptors)
            return found

        return result

    @property
    def is_gone(self) -> bool:
        """Return whether the other end has closed the channel."""
        return self._waiting is None

    def close(self) -> None:
        """Close the channel; calls that wait fail. Harmless when repeated."""
        self._channel.shutdown()

    def _read(self) -> None:
        try:
            while True:
                try:
                    self._take(*self._channel.receive_with_descriptors())
                except NoDescriptorError as error:
                    self._fail(error.received, error)
        except ChannelClosedError:
            pass
        except Exception:
            _log.exception("a front worker's channel ended")
        with self._lock:
            waiting, self._waiting = self._waiting or {}, None
        for answer in waiting.values():
            answer.set_exception(_over())
        self._channel.close()
        self._gone()

    def _take(self, message: bytes, descriptors: list[Descriptor]) -> None:
        kind, number = _HEAD.unpack_from(message)
        body = message[_HEAD.size :]
        if kind & _IN_FILE:
            body = _contents(descriptors.pop(0))
            kind -= _IN_FILE
        if kind == _CALL:
            try:
                self._answer(number, body, descriptors)
            except (OSError, RuntimeError, MemoryError) as error:  # no descriptor or no thread is left
                self._fail(message, error)
        elif answer := self._asked(number):
            answer.set_result(_Answer(kind, body, descriptors))

    def _asked(self, number: int) -> Future[_Answer] | None:
        """Return what waits for an answer; None if its caller waits no longer."""
        with self._lock:
            return (self._waiting or {}).pop(number, None)

    def _fail(self, message: bytes, error: Exception) -> None:
        """Fail a call of the other end, or one of this end whose answer has come, for want of something here."""
        kind, number = _HEAD.unpack_from(message)
        refusal = ServingError(ErrorKind.RESOURCE_EXHAUSTED, lack_of(error) or str(error))
        if kind & ~_IN_FILE == _CALL:
            self._send(_ERROR, number, refusal)
        elif answer := self._asked(number):
            answer.set_exception(refusal)

    def _answer(self, number: int, body: bytes, descriptors: Sequence[Descriptor]) -> None:
        name, args, kwargs = _load(body, descriptors)
        interface, _, method = name.rpartition(".")
        declared, (target, executor) = self._served[interface]
        if method.startswith("_") or not hasattr(declared, method):
            raise AttributeError(f"{name} is no public method of an interface")
        executor.submit(self._call, number, getattr(target, method), args, kwargs)

    def _call(self, number: int, method: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        kind, value = _RESULT, None
        try:
            value = method(*args, **kwargs)
        except (NnhalError, OSError, MemoryError) as error:
            kind, value = _ERROR, error
        except Exception:
            _log.exception("a call of a front worker failed", method=method.__qualname__)
            kind, value = _ERROR, ServingError(ErrorKind.INTERNAL, "the server failed; its log says why")
        try:
            self._send(kind, number, value)
        except ServingError:
            _log.debug("a caller is gone", method=method.__qualname__)

    def _send(self, kind: int, number: int, value: object) -> None:
        body, descriptors = _dump(value)
        if len(body) > _MOST_INLINE:
            kind, descriptors, body = kind + _IN_FILE, [_file_of(body), *descriptors], b""
        try:
            with self._sending:
                self._channel.send(_HEAD.pack(kind, number) + body, descriptors)
        except ChannelClosedError:
            self._forget(number)
            raise _over() from None

    def _forget(self, number: int) -> None:
        with self._lock:
            if self._waiting is not None:
                self._waiting.pop(number, None)


def _over() -> ServingError:
    return ServingError(ErrorKind.UNAVAILABLE, "the server is stopping")


class _Pickler(pickle.Pickler):
    """Pickles errors without calling their constructors, and lists descriptors instead of pickling them."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.descriptors: list[Descriptor] = []

    def persistent_id(self, obj: object) -> int | None:
        if not isinstance(obj, Descriptor):
            return None
        self.descriptors.append(obj)
        return len(self.descriptors) - 1

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, BaseException):
            return _error_of, (type(obj), obj.args, vars(obj))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, descriptors: Sequence[Descriptor]) -> None:
        super().__init__(file)
        self._descriptors = descriptors

    def persistent_load(self, pid: int) -> Descriptor:
        return self._descriptors[pid]


def _error_of(kind: type[BaseException], args: tuple[object, ...], attributes: Mapping[str, object]) -> BaseException:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


def _dump(value: object) -> tuple[bytes, list[Descriptor]]:
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    return file.getvalue(), pickler.descriptors


def _load(body: bytes, descriptors: Sequence[Descriptor]) -> Any:
    return _Unpickler(io.BytesIO(body), descriptors).load()


def _file_of(body: bytes) -> Descriptor:
    descriptor = Descriptor(os.memfd_create("nnhal-front", os.MFD_CLOEXEC))
    with open(descriptor.fileno(), "wb", closefd=False) as file:
        file.write(body)
    return descriptor


def _contents(descriptor: Descriptor) -> bytes:
    with open(descriptor.fileno(), "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
