"""What a host's dashboard knows of those of the other hosts.

Each host asks all others, so that it asks seldom once nothing changes any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

Named = Sequence[tuple[str, str]]
"""The names of hosts and the addresses of their dashboards, which are empty without one."""
SETTLED_CHECKS = 8
"""Of the checks that follow two equal answers, one in so many asks again."""


class OtherDashboards:
    """Asks all hosts for their dashboards, and tells the own one."""

    def __init__(self, ask: Callable[[], Awaitable[Named]], tell: Callable[[Named], None]) -> None:
        """``ask`` raises TimeoutError if a host does not answer, ``tell`` OSError; it may take some time."""
        self._ask = ask
        self._tell = tell
        self._told: Named | None = None
        self._resting = 0

    async def check(self) -> None:
        """Look whether there is news, unless there was none lately. What cannot be asked or told stays as it was."""
        if self._resting:
            self._resting -= 1
            return
        with suppress(TimeoutError, OSError):
            named = sorted(await self._ask())
            # While only some have an address, a dashboard starts.
            if named == self._told and len({bool(address) for _, address in named}) == 1:
                self._resting = SETTLED_CHECKS - 1
            await asyncio.to_thread(self._tell, named)
            self._told = named
