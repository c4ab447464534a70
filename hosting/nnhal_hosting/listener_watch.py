"""Asks the process's own listeners, over real connections, whether they still answer.

A server can be silent although nothing of it has ended. One that is silent for long, while this process is given the
processors that it wants and nobody debugs it, will not come back: readiness ends, and the process, to be started again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from nnhal.threads import LastingThread
from nnhal_hosting.asking import Silent, Unhealthy, require_end, require_grpc, require_page
from nnhal_hosting.logs import get_logger
from nnhal_hosting.processor_time import ProcessorTime
from nnhal_hosting.supervision import is_traced

_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
_ENOUGH_SILENCES = 3.5
"""Silences in a row after which a listener is given up. Each counts for the share of the processors that this process
was given of what it wanted meanwhile: on a quiet machine for nearly 1.
"""
_TICK_SECONDS = 0.1
Ask = Callable[[float], None]
"""Returns, or raises Unhealthy, if a listener answers, whatever it says. Raises Silent if it does not so in time."""
_log = get_logger(__name__)


class ListenerWatch:
    """Asks listeners in a thread. Use it as a context, inside that of what listens."""

    def __init__(
        self,
        ended: Callable[[str], object] | None,
        is_on_time: Callable[[], bool] = lambda: True,
        pause: float = _PAUSE_SECONDS,
    ) -> None:
        """``ended`` is called, once, with the name of a listener that does not answer any more. With None that is only
        logged, about once a minute until it answers.

        No silence counts unless ``is_on_time`` then says that what serves the listeners gets its turn.
        """
        self._ended = ended
        self._is_on_time = is_on_time
        self._pause = pause
        self._asks: dict[str, Ask] = {}
        self._silences: dict[str, float] = {}
        self._leaving = threading.Event()
        self._thread = LastingThread(self._watch, "listener-watch")

    def add(self, name: str, ask: Ask) -> None:
        """Ask one more listener. Call it before the context is entered."""
        self._asks[name] = ask

    def __enter__(self) -> ListenerWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()  # the thread may be asking, and ends by itself

    def _watch(self) -> None:
        while not self._leaving.wait(self._pause):
            for name, ask in self._asks.items():
                silence = self._silence(ask)
                silences = 0.0 if silence is None else self._silences.get(name, 0.0) + silence
                self._silences[name] = silences
                if silences >= _ENOUGH_SILENCES and not self._leaving.is_set():
                    self._silences[name] = 0.0
                    if self._ended is None:
                        _log.critical("a listener does not answer", listener=name)
                        continue
                    _log.critical("a listener does not answer; the process ends, to be started again", listener=name)
                    self._ended(name)
                    return

    def _silence(self, ask: Ask) -> float | None:
        """Return for how much it counts that a listener is silent now; None if it answers or is not to blame."""
        began, time_given = time.monotonic(), ProcessorTime(os.getpid())
        try:
            ask(_PATIENCE_SECONDS)
        except Silent:
            self._leaving.wait(_TICK_SECONDS)
            share = time_given.passed() / (time.monotonic() - began)
            is_to_blame = self._is_on_time() and _has_descriptors() and not is_traced(os.getpid())
            return share if is_to_blame else None
        except Unhealthy:
            return None
        except Exception:
            _log.exception("a listener cannot be asked whether it answers")
        return None


def _has_descriptors() -> bool:
    """Return whether a listener could accept a connection beside that of who asks: a pipe takes two descriptors."""
    try:
        for number in os.pipe2(os.O_CLOEXEC):
            os.close(number)
    except OSError:
        return False
    return True


def asks_grpc(address: str, has_tls: bool = False) -> Ask:
    """Ask a listener of gRPC at ``unix:PATH`` or ``HOST:PORT``."""
    return partial(require_grpc, address, has_tls)


def asks_http(address: str, has_tls: bool) -> Ask:
    """Ask a listener of HTTP at ``HOST:PORT`` anything."""
    return partial(require_page, f"{'https' if has_tls else 'http'}://{address}/v2/health/live")


def asks_link(path: Path) -> Ask:
    """Ask a listener for links at a unix socket: it ends one on which nothing comes. No session is opened."""
    return partial(require_end, str(path))
