"""Which channels are served together."""

from __future__ import annotations

import os
import threading

from nnhal.link import Channel
from nnhal_hosting.polling.crew import Crew
from nnhal_hosting.polling.member import Ended, Exchange, Member


class Poller:
    """Serves channels. It has threads and descriptors while there are any. Safe to use from several threads."""

    def __init__(self, spin_ns: int = 0) -> None:
        """``spin_ns`` is how long to look for the next call after a call, before a thread sleeps.

        It is 0 if the process may use one processor only: whoever looks keeps the caller from running.
        """
        self._spin_ns = spin_ns if len(os.sched_getaffinity(0)) > 1 else 0
        self._lock = threading.Lock()
        self._crew: Crew | None = None

    def add(self, channel: Channel, exchange: Exchange, ended: Ended, in_turn: bool = False) -> None:
        """Call ``exchange`` when the channel can be read, in one thread at a time, and do the work that results.

        Further exchanges go on while that work is done, unless they are ``in_turn``. What exchange or work raises ends
        the channel: ``ended`` is called once with it, and is to close the channel; no other channel waits for that. A
        client that does not read its answers is not served until it does.

        Raises OSError or RuntimeError if there is no descriptor or no thread.
        """
        if channel.fileno() < 0:
            raise OSError("the channel is closed")
        channel.defer_sends()
        member = Member(channel, exchange, ended, in_turn)
        with self._lock:
            crew = self._crew
            if crew is None:
                crew = Crew(self._spin_ns, self._dismiss)
                crew.start()
                self._crew = crew
            try:
                crew.add(member)
                return
            except OSError as error:
                failure = error
        crew.end_without_channels()
        raise failure

    def _dismiss(self, crew: Crew) -> bool:
        """Forget a crew that has no channels, and return whether that is so."""
        with self._lock:
            if crew.members or self._crew is not crew:
                return False
            self._crew = None
            return True
