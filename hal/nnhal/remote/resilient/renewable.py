"""One object of a process, to be had again when the process has died."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

import structlog

from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.types import ErrorStatus

_log = structlog.get_logger(__name__)
T = TypeVar("T")
R = TypeVar("R")


class Mortal(Protocol):
    """What knows whether its session has ended."""

    @property
    def gone(self) -> bool:
        """Whether its session has ended, or its device is dead."""
        ...


M = TypeVar("M", bound=Mortal)


def alive(thing: M) -> M:
    """The thing itself. Raises DeadObjectError where its session has ended."""
    if thing.gone:
        raise DeadObjectError(f"the session of a {type(thing).__name__} has ended")
    return thing


class DeviceReplacedError(HalError):
    """Another device answers in the place of the one that died; nothing of the old one can be had again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorStatus.GENERAL_FAILURE, message)


class Renewable(Generic[T]):
    """An object and how to have it again. Safe to use from several threads.

    ``renew`` is given the dead object, in one thread at a time. DeviceReplacedError from it is final.
    """

    def __init__(self, first: T, renew: Callable[[T], T]) -> None:
        self._renew = renew
        self._lock = threading.Lock()
        self._current = first
        self._renewal: Future[T] | None = None
        self._replaced = ""

    @property
    def last(self) -> T:
        """The object as it was last had, dead or alive."""
        return self._current

    @property
    def current(self) -> T:
        """The object, dead or alive. Raises DeviceReplacedError where there will be none any more."""
        if self._replaced:
            raise DeviceReplacedError(self._replaced)
        return self._current

    def use(self, call: Callable[[T], R]) -> R:
        """Call something with the object, and once more with a new one where its process has died.

        Raises the first DeadObjectError where no new one can be had, and other errors as they come.
        """
        used = self.current
        try:
            return call(used)
        except DeadObjectError as error:
            renewed = self._renewed(used, error)
        return call(renewed)

    def _renewed(self, dead: T, death: DeadObjectError) -> T:
        """The object that takes the place of a dead one. Of several threads the first one makes it."""
        with self._lock:
            if self._current is not dead:
                return self._current
            renewal, mine = self._renewal or Future(), self._renewal is None
            self._renewal = renewal
        try:
            return self._make(dead, renewal) if mine else renewal.result()
        except DeviceReplacedError as error:
            raise DeviceReplacedError(error.message) from death
        except NnhalError as error:
            _log.warning("a dead object cannot be had again", kind=type(dead).__name__, reason=str(error))
            raise death from error

    def _make(self, dead: T, renewal: Future[T]) -> T:
        try:
            renewed = self._renew(dead)
        except BaseException as error:
            with self._lock:
                self._renewal = None
                if isinstance(error, DeviceReplacedError):
                    self._replaced = error.message
            renewal.set_exception(error)
            raise
        with self._lock:
            self._current, self._renewal = renewed, None
        renewal.set_result(renewed)
        return renewed
