"""Threads that take turns at one channel: whoever has work to do leaves the channel to another, and does it at once.

Handing work to another thread would cost a wake-up on the way to it; here it is only the channel that is handed over.
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
        """Whether it is done sooner than the channel is handed over."""
        ...

    def run(self) -> None:
        """Do it. Raises nothing."""
        ...


class Shifts:
    """Repeats an exchange, one at a time, until it raises; what it leaves to do is done by the thread that had it."""

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
        """Begin. Raises RuntimeError where no thread is to be had."""
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
        """One exchange and what it leaves to do; False at the end. A thread that waits for its turn holds no work."""
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
        """See that somebody is there for the next exchange."""
        with self._count:
            self._free -= 1
            alone = self._free == 0
        if alone:
            try:
                self.start()
            except RuntimeError:  # no thread to be had: the channel waits until the work is done
                return
