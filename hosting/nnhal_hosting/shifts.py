"""Threads that take turns at one channel: a thread that has work to do leaves the channel to another, and does it.

Handing the work to another thread would delay it by a wake-up; here only the channel is handed over.
(Leader/followers: Schmidt et al., Pattern-Oriented Software Architecture, volume 2.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol


class Work(Protocol):
    """What an exchange leaves to do."""

    @property
    def is_brief(self) -> bool:
        """Whether the work takes less time than handing over the channel."""
        ...

    def run(self) -> None:
        """Do the work. Raises nothing."""
        ...


class Shifts:
    """Repeats an exchange, one at a time, until it raises. An exchange's thread also does the work that results."""

    def __init__(self, name: str, exchange: Callable[[], Work | None], ended: Callable[[BaseException], None]) -> None:
        """``exchange`` is called by one thread at a time. ``ended`` is called once, with what it raised."""
        self._name = name
        self._exchange = exchange
        self._ended = ended
        self._turn = threading.Lock()
        self._over = False
        self._count = threading.Lock()
        self._free = 0

    def start(self) -> None:
        """Start a thread. Raises RuntimeError if no thread can be started."""
        with self._count:
            self._free += 1
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError:
            with self._count:
                self._free -= 1
            raise

    def _run(self) -> None:
        while self._take_turn():
            pass

    def _take_turn(self) -> bool:
        """Do one exchange and its work; return False at the end. A thread that waits for its turn holds no work."""
        with self._turn:
            if self._over:
                return False
            try:
                work = self._exchange()
            except BaseException as error:
                self._over = True
                self._ended(error)
                return False
            if work is not None and work.is_brief:
                work.run()
                return True
        if work is not None:
            self._leave_turn()
            work.run()
            with self._count:
                self._free += 1
        return True

    def _leave_turn(self) -> None:
        """Make sure that another thread is free for the next exchange."""
        with self._count:
            self._free -= 1
            alone = self._free == 0
        if alone:
            try:
                self.start()
            except RuntimeError:  # no thread can be started: the channel waits until the work is done
                return
