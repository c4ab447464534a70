"""Watching, in the event loop, the channels on which devices answer runs."""

from __future__ import annotations

import os
from collections.abc import Callable

from nnhal.descriptor import Descriptor
from nnhal_service.serving.bound import AwaitedAnswer, InstanceRun
from nnhal_service.serving.loop import ServingLoop


class ExchangeWatch:
    """Watches the channel of a bound model in the loop, for all of its runs: to watch it anew for each would cost more
    than the run. Only the loop uses it.

    It watches a duplicate of the descriptor, since threads may close the channel itself. It closes itself when the
    channel is closed, at either end.
    """

    def __init__(self, loop: ServingLoop, started: InstanceRun) -> None:
        """Watch the channel on which a run was started. Raises OSError if there is no descriptor left."""
        self._loop = loop.asyncio
        self._exchange: AwaitedAnswer | None = started.exchange
        self._descriptor = Descriptor(os.dup(started.exchange.fileno()))
        self._answered: Callable[[], None] | None = None
        self._loop.add_reader(self._descriptor.fileno(), self._readable)
        os.set_blocking(self._descriptor.fileno(), True)  # the loop changes that, for the channel's own descriptor too

    def is_for(self, started: InstanceRun) -> bool:
        """Whether it watches the channel on which a run was started."""
        return self._exchange is started.exchange

    def expect(self, answered: Callable[[], None]) -> None:
        """Call back once, when the run that was started last can be finished without waiting."""
        self._answered = answered

    def close(self) -> None:
        """Stop watching; harmless when repeated."""
        if self._exchange is not None:
            self._exchange = self._answered = None
            self._loop.remove_reader(self._descriptor.fileno())
            self._descriptor.close()

    def _readable(self) -> None:
        answered, self._answered = self._answered, None
        if answered is None:
            self.close()  # there is nothing to answer, so that the channel has been closed
        else:
            answered()
