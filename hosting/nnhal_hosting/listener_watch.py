"""Asks the process's own listeners, over real connections, whether they still answer.

A server can be silent although nothing of it has ended. One that is silent for long, while this process gets its turn
of the processors and nobody debugs it, will not come back: readiness ends, and the process, to be started again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType

from nnhal_hosting.asking import Silent, Unhealthy, require_end, require_grpc, require_page
from nnhal_hosting.logs import get_logger
from nnhal_hosting.supervision import is_traced

_PAUSE_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
_MOST_SILENCES = 4
"""Silences in a row after which a listener is given up."""
_TICK_SECONDS = 0.1
_LONGEST_TICK_SECONDS = 0.15
"""A tick that takes longer shows that the machine is busy, or was asleep."""
Ask = Callable[[float], None]
"""Returns, or raises Unhealthy, if a listener answers, whatever it says. Raises Silent if it does not so in time."""
_log = get_logger(__name__)


class ListenerWatch:
    """Asks listeners in a thread. Use it as a context, inside that of what listens."""

    def __init__(
        self,
        ended: Callable[[str], object],
        is_on_time: Callable[[], bool] = lambda: True,
        pause: float = _PAUSE_SECONDS,
    ) -> None:
        """``ended`` is called, once, with the name of a listener that does not answer any more.

        No silence counts unless ``is_on_time`` then says that what serves the listeners gets its turn.
        """
        self._ended = ended
        self._is_on_time = is_on_time
        self._pause = pause
        self._asks: dict[str, Ask] = {}
        self._silences: dict[str, int] = {}
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="listener-watch", daemon=True)

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
                silences = self._silences[name] = self._silences.get(name, 0) + 1 if self._is_silent(ask) else 0
                if silences >= _MOST_SILENCES and not self._leaving.is_set():
                    _log.critical("a listener does not answer; the process ends, to be started again", listener=name)
                    self._ended(name)
                    return

    def _is_silent(self, ask: Ask) -> bool:
        try:
            ask(_PATIENCE_SECONDS)
        except Silent:
            began = time.monotonic()
            self._leaving.wait(_TICK_SECONDS)
            is_late = time.monotonic() - began > _LONGEST_TICK_SECONDS
            return not is_late and self._is_on_time() and not is_traced(os.getpid())
        except Unhealthy:
            return False
        except Exception:
            _log.exception("a listener cannot be asked whether it answers")
        return False


def asks_grpc(address: str, has_tls: bool = False) -> Ask:
    """Ask a listener of gRPC at ``unix:PATH`` or ``HOST:PORT``."""
    return partial(require_grpc, address, has_tls)


def asks_http(address: str, has_tls: bool) -> Ask:
    """Ask a listener of HTTP at ``HOST:PORT`` anything."""
    return partial(require_page, f"{'https' if has_tls else 'http'}://{address}/v2/health/live")


def asks_link(path: Path) -> Ask:
    """Ask a listener for links at a unix socket: it ends one on which nothing comes. No session is opened."""
    return partial(require_end, str(path))
