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
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, Protocol, TypeVar

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal.exhaustion import lack_of
from nnhal.link import Channel, ChannelClosedError, NoDescriptorError
from nnhal.link.channel import MAX_MESSAGE_BYTES
from nnhal.threads import BriefThread
from nnhal_hosting.logs import get_logger
from nnhal_service.runtime.run.cancellation import Cancellation
from nnhal_service.serving.errors import ErrorKind, ServingError

P = ParamSpec("P")
R = TypeVar("R")
_HEAD = struct.Struct("=BQ")
"""The kind of a message, and the number of its call."""
_CALL, _RESULT, _ERROR, _CANCEL = range(4)
_IN_FILE = 4
"""Added to the kind if the body is in a file, which is the message's first descriptor."""
_MOST_INLINE = MAX_MESSAGE_BYTES - _HEAD.size
_CLOSE = "close"
_log = get_logger(__name__)


class Staying(Protocol):
    """An object that the other process uses where it is."""

    def close(self) -> None:
        """The other process uses it no more."""


class Peer:
    """The other process. Each end calls methods of objects of the other. Safe to use from several threads.

    Arguments and results are copies, with three exceptions. Descriptors are of the same open files. A Cancellation in
    the arguments cancels that in the other process too, even before the call has begun. An object of one of the types
    that ``stay`` remains where it is: the other end gets a stand-in, which may be an argument of later calls, until it
    calls ``close``. If it never does, the object is closed when that process is gone.
    """

    def __init__(
        self, channel: Channel, executor: Executor, gone: Callable[[], None], stay: tuple[type[Staying], ...] = ()
    ) -> None:
        """Take over ``channel``. The ``executor`` runs the calls of the other end. ``gone`` is called once, in a thread
        of its own, when the other end has closed the channel.
        """
        self._channel = channel
        self._executor = executor
        self._gone = gone
        self._stay = stay
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._waiting: dict[int, Future[Any]] | None = {}
        self._running: dict[int, Cancellation] = {}
        """The cancellations of the other end's calls."""
        self._handed: dict[int, Staying] = {}
        """The objects of this end of which the other has stand-ins."""
        self._served: Mapping[str, object] = {}
        self._serves = threading.Event()
        self._thread = BriefThread(self._read, "front-peer")

    def start(self) -> None:
        """Begin to take messages. Calls of the other end wait for ``serve``."""
        self._thread.start()

    def serve(self, served: Mapping[type, object]) -> None:
        """Let the other end call the public methods of these objects, by their interfaces."""
        self._served = {interface.__qualname__: target for interface, target in served.items()}
        self._serves.set()

    def remote(self, interface: type, here: object = None) -> Any:
        """A stand-in for what the other process serves by an interface. What ``here`` has, is asked of that instead.

        A call raises what the method raises there, and UNAVAILABLE if the process is gone.
        """
        return _Remote(self, interface.__qualname__, here)

    def begin(self, target: str | int, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Future[Any]:
        """Begin a call, which is not to be cancelled by its future. Raises as ``remote`` says."""
        number = next(self._numbers)
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        with self._lock:
            if self._waiting is None:
                raise _over()
            self._waiting[number] = answer
        try:
            cancellation = self._send(_CALL, number, (target, method, args, kwargs))
        except BaseException:
            self._asked(number)
            raise
        if cancellation is not None:
            cancel = partial(self._cancel, number)
            cancellation.on_cancel(cancel)
            answer.add_done_callback(lambda _: cancellation.forget(cancel))
        return answer

    @property
    def is_gone(self) -> bool:
        """Return whether the other end has closed the channel."""
        return self._waiting is None

    def close(self) -> None:
        """Close the channel; calls that wait fail. Harmless when repeated."""
        self._channel.shutdown()

    def _cancel(self, number: int) -> None:
        with suppress(ServingError):
            self._send(_CANCEL, number, None)

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
            handed, self._handed = self._handed, {}
        for answer in waiting.values():
            answer.set_exception(_over())
        for cancellation in list(self._running.values()):
            cancellation.cancel()
        self._channel.close()
        self._serves.set()
        self._gone()
        for item in reversed(handed.values()):  # the later ones may use the earlier
            item.close()

    def _take(self, message: bytes, descriptors: list[Descriptor]) -> None:
        kind, number = _HEAD.unpack_from(message)
        body = message[_HEAD.size :]
        if kind & _IN_FILE:
            body = _contents(descriptors.pop(0))
            kind -= _IN_FILE
        if kind == _CALL:
            try:
                self._begin(number, body, descriptors)
            except (ServingError, OSError, RuntimeError, MemoryError) as error:  # no descriptor or no thread is left
                self._fail(message, error)
        elif kind == _CANCEL:
            cancellation = self._running.get(number)
            if cancellation is not None:
                cancellation.cancel()
        elif answer := self._asked(number):
            _settle(answer, kind, partial(self._load, body, descriptors))

    def _asked(self, number: int) -> Future[Any] | None:
        with self._lock:
            return (self._waiting or {}).pop(number, None)

    def _fail(self, message: bytes, error: Exception) -> None:
        """Fail a call of the other end, or one of this end whose answer has come, for want of something here."""
        kind, number = _HEAD.unpack_from(message)
        refusal = error
        if not isinstance(error, ServingError):
            refusal = ServingError(ErrorKind.RESOURCE_EXHAUSTED, lack_of(error) or str(error))
        if kind & ~_IN_FILE == _CALL:
            self._running.pop(number, None)
            self._send(_ERROR, number, refusal)
        elif answer := self._asked(number):
            answer.set_exception(refusal)

    def _begin(self, number: int, body: bytes, descriptors: Sequence[Descriptor]) -> None:
        """Begin a call of the other end. Its cancellation may come at once."""
        cancellation = Cancellation()
        target, method, args, kwargs = self._load(body, descriptors, cancellation)
        if method.startswith("_"):
            raise AttributeError(f"{target}.{method} is not public")
        self._running[number] = cancellation
        self._executor.submit(self._call, number, target, method, args, kwargs)

    def _call(
        self, number: int, target: str | int, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        kind, value = _RESULT, None
        try:
            value = getattr(self._target(target, method), method)(*args, **kwargs)
        except (NnhalError, OSError, MemoryError) as error:
            kind, value = _ERROR, error
        except Exception:
            _log.exception("a call of a front worker failed", method=method)
            kind, value = _ERROR, ServingError(ErrorKind.INTERNAL, "the server failed; its log says why")
        self._running.pop(number, None)
        try:
            self._send(kind, number, value)
        except ServingError:
            _log.debug("a caller is gone", method=method)

    def _target(self, target: str | int, method: str) -> object:
        """The object of a call, which is the last one if it closes the object. Raises UNAVAILABLE if it is closed."""
        found: object
        if isinstance(target, int):
            with self._lock:
                found = self._handed.pop(target, None) if method == _CLOSE else self._handed.get(target)
        else:
            self._serves.wait()
            found = self._served.get(target)
        if found is None:
            raise _over()
        return found

    def _send(self, kind: int, number: int, value: object) -> Cancellation | None:
        """Send a message; returns the cancellation in it. Raises UNAVAILABLE if the other end is gone."""
        pickler = _Pickler(self)
        body = pickler.dumped(value)
        descriptors = pickler.descriptors
        if len(body) > _MOST_INLINE:
            kind, descriptors, body = kind + _IN_FILE, [_file_of(body), *descriptors], b""
        try:
            with self._sending:
                self._channel.send(_HEAD.pack(kind, number) + body, descriptors)
        except ChannelClosedError:
            raise _over() from None
        return pickler.cancellation

    def _load(self, body: bytes, descriptors: Sequence[Descriptor], cancellation: Cancellation | None = None) -> Any:
        return _Unpickler(self, body, descriptors, cancellation).load()

    def stand_in(self, item: object) -> tuple[str, int | str] | None:
        """Return how a message says what stays where it is; None for what is copied."""
        if isinstance(item, _Remote):
            return "there", item.target
        if not isinstance(item, self._stay):
            return None
        with self._lock:
            if self._waiting is not None:
                number = next(self._numbers)
                self._handed[number] = item
                return "here", number
        item.close()
        raise _over()

    def meant(self, place: str, number: int) -> object:
        """Return what ``stand_in`` of the other end has said. Raises UNAVAILABLE for an object that is closed."""
        if place == "here":
            return _Remote(self, number)
        found = self._handed.get(number)
        if found is None:
            raise _over()
        return found


class _Remote:
    """A stand-in for an object of the other process."""

    def __init__(self, peer: Peer, target: str | int, here: object = None) -> None:
        self.target = target
        self._peer = peer
        self._here = here

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._here, name):
            return getattr(self._here, name)
        return _RemoteMethod(self._peer, self.target, name)


class _RemoteMethod:
    __slots__ = ("_name", "_peer", "_target")

    def __init__(self, peer: Peer, target: str | int, name: str) -> None:
        self._peer, self._target, self._name = peer, target, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.begin(*args, **kwargs).result()

    def begin(self, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._peer.begin(self._target, self._name, args, kwargs)


def begin(method: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
    """Begin a call of a method of a stand-in. Raises UNAVAILABLE if the other process is gone."""
    if not isinstance(method, _RemoteMethod):
        raise TypeError(f"{method} is not a method of another process")
    return method.begin(*args, **kwargs)


def without_answer(method: Callable[P, object]) -> Callable[P, None]:
    """Return a function that begins calls of a stand-in's method, of which nobody needs the result; it does nothing if
    the other process is gone.
    """

    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        with suppress(ServingError):
            begin(method, *args, **kwargs)

    return call


def _over() -> ServingError:
    return ServingError(ErrorKind.UNAVAILABLE, "the server is stopping")


def _settle(answer: Future[Any], kind: int, load: Callable[[], Any]) -> None:
    try:
        value = load()
    except Exception as error:
        kind, value = _ERROR, error
    if kind == _ERROR:
        answer.set_exception(value)
    else:
        answer.set_result(value)


class _Pickler(pickle.Pickler):
    """Pickles errors without calling their constructors, and lists what is not copied."""

    def __init__(self, peer: Peer) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, pickle.HIGHEST_PROTOCOL)
        self._peer = peer
        self.descriptors: list[Descriptor] = []
        self.cancellation: Cancellation | None = None

    def dumped(self, value: object) -> bytes:
        self.dump(value)
        return self._file.getvalue()

    def persistent_id(self, obj: object) -> object:
        if isinstance(obj, Descriptor):
            self.descriptors.append(obj)
            return "file", len(self.descriptors) - 1
        if isinstance(obj, Cancellation):
            self.cancellation = obj
            return "cancellation", 0
        return self._peer.stand_in(obj)

    def reducer_override(self, obj: object) -> Any:
        if isinstance(obj, BaseException):
            return _error_of, (type(obj), obj.args, vars(obj))
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    def __init__(
        self, peer: Peer, body: bytes, descriptors: Sequence[Descriptor], cancellation: Cancellation | None
    ) -> None:
        super().__init__(io.BytesIO(body))
        self._peer = peer
        self._descriptors = descriptors
        self._cancellation = cancellation

    def persistent_load(self, pid: tuple[str, int]) -> object:
        kind, number = pid
        if kind == "file":
            return self._descriptors[number]
        return self._cancellation if kind == "cancellation" else self._peer.meant(kind, number)


def _error_of(kind: type[BaseException], args: tuple[object, ...], attributes: Mapping[str, object]) -> BaseException:
    error = kind.__new__(kind, *args)
    vars(error).update(attributes)
    return error


def _file_of(body: bytes) -> Descriptor:
    descriptor = Descriptor(os.memfd_create("nnhal-front", os.MFD_CLOEXEC))
    with open(descriptor.fileno(), "wb", closefd=False) as file:
        file.write(body)
    return descriptor


def _contents(descriptor: Descriptor) -> bytes:
    with open(descriptor.fileno(), "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
