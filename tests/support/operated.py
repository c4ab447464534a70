"""A framework process with a repository, and its operator."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from nnhal.remote.admin import FrameworkAdmin
from nnhal.v1 import framework_admin_pb2 as wire
from tests.support.model_server import Served
from tests.support.waiting import SECONDS

T = TypeVar("T")


@contextmanager
def operator_of(served: Served) -> Iterator[FrameworkAdmin]:
    with FrameworkAdmin(served.endpoint, served.child.admin_key) as admin:
        yield admin


def model_state(admin: FrameworkAdmin, name: str) -> wire.ServedModelState:
    (state,) = [state for state in admin.framework().models if state.name == name]
    return state


def standing(admin: FrameworkAdmin, device: str) -> wire.DeviceStanding:
    (found,) = [found for found in admin.framework().devices if found.name == device]
    return found


def texts(admin: FrameworkAdmin, kind: str) -> Sequence[str]:
    return [event.text for event in admin.framework().events if event.kind == kind]


class Beside(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._result: list[T] = []
        self._error: list[Exception] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self) -> T:
        """Wait for its end. Raises what it has raised."""
        self._thread.join(SECONDS)
        if self._error:
            raise self._error[0]
        assert self._result, "the call has not ended"
        return self._result[0]

    def _run(self) -> None:
        try:
            self._result.append(self._call())
        except Exception as error:
            self._error.append(error)
