"""Shares of what a process has for all of its clients: nobody can take so much that another has nothing left.

An intermediary, such as the framework, asks in the name of its own clients. Its share is divided among them by the same
rule, so that what one of them hoards is missing to nobody else, and naming many clients gains an intermediary nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import NamedTuple

from nnhal.errors import HalError
from nnhal.types import ErrorStatus

_SMALL = 512
"""A client may have one, and one in so many, whatever others hold, as long as any is left."""


class Level(NamedTuple):
    """A client, or an intermediary, with an id that no other has beside it, and a title for messages."""

    id: str
    title: str


class Tenant(NamedTuple):
    """The client in whose name something is done, after those through whom it asks."""

    levels: tuple[Level, ...] = ()

    def within(self, outer: Tenant) -> Tenant:
        """Return this client as one of an intermediary."""
        return Tenant((*outer.levels, *self.levels))


NOBODY = Tenant()
"""The process itself."""
_acting_for: ContextVar[Tenant] = ContextVar("acting_for", default=NOBODY)


def tenant() -> Tenant:
    """Return the client in whose name this thread acts; without levels it is the process itself."""
    return _acting_for.get()


def act_for(client: Tenant) -> Token[Tenant]:
    """Act in the name of a client until ``act_as_before`` gets what this returns, or this is called again."""
    return _acting_for.set(client)


def act_as_before(before: Token[Tenant]) -> None:
    """Undo ``act_for``, in the same thread."""
    _acting_for.reset(before)


@contextmanager
def acting_for(client: Tenant) -> Iterator[None]:
    """Act in the name of a client within the context."""
    before = act_for(client)
    try:
        yield
    finally:
        act_as_before(before)


class _Held:
    """Amount that one level holds, with all that is below it."""

    __slots__ = ("below", "held", "title")

    def __init__(self, title: str) -> None:
        self.title = title
        self.held = 0
        self.below: dict[str, _Held] = {}


class Shares:
    """Divides an amount of something among clients. Safe to use from several threads.

    Each leaves a part of what it finds: with ``leaves`` 4, it may hold three times what is left for those beside it.
    The clients of an intermediary share what it may hold by the same rule.
    """

    def __init__(self, total: int, what: str, setting: str, most: int = 0, leaves: int = 4) -> None:
        """``what`` is shared, such as "descriptors at device cpu_acc"; ``setting`` names the total in refusals.

        A client may have ``most`` at any time, 0 for no such limit.
        """
        self.total = total
        self.what = what
        self._way_out = f" ({setting})" if setting else ""
        self._most = most or total
        self._leaves = leaves
        self._lock = threading.Lock()
        self._all = _Held("")
        # Finalizers run at any moment, even in a thread that holds the lock.
        self._returned: deque[tuple[Tenant, int]] = deque()

    @property
    def held(self) -> int:
        with self._lock:
            self._settle()
            return self._all.held

    def room(self, client: Tenant) -> int:
        """Return how much more a client may take at this moment."""
        with self._lock:
            self._settle()
            *_, (node, most) = self._levels(client)
            return max(0, most - node.held)

    def take(self, count: int, doing: str = "") -> Tenant:
        """Take an amount in the name of ``tenant()``, which is returned. ``doing`` says what for, such as "a buffer".

        Raises RESOURCE_EXHAUSTED_TRANSIENT.
        """
        client = tenant()
        with self._lock:
            self._settle()
            *_, (node, most) = self._levels(client)  # it may have no more than there is above it
            if node.held + count > most:
                raise self._refusal(count, doing, node, most)
            self._all.held += count
            node = self._all
            for level in client.levels if count else ():
                node = node.below.setdefault(level.id, _Held(level.title))
                node.held += count
        return client

    def give_back(self, client: Tenant, count: int) -> None:
        """Undo ``take``, in any thread and at any moment."""
        self._returned.append((client, count))

    def charge_for(self, owner: object, count: int = 1, doing: str = "") -> None:
        """Take an amount, as ``take``, until an object is collected. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        self.give_with(owner, self.take(count, doing), count)

    def give_with(self, owner: object, client: Tenant, count: int) -> None:
        """Give back what was taken when an object is collected."""
        weakref.finalize(owner, self._returned.append, (client, count)).atexit = False

    @contextmanager
    def taken(self, count: int, doing: str = "") -> Iterator[None]:
        """Take an amount while the context lasts. Raises RESOURCE_EXHAUSTED_TRANSIENT."""
        client = self.take(count, doing)
        try:
            yield
        finally:
            self.give_back(client, count)

    def _levels(self, client: Tenant) -> Iterator[tuple[_Held, int]]:
        """Yield what each level of a client holds, and how much it may; at least one."""
        most, above = self.total, self._all
        for number, level in enumerate(client.levels):
            node = above.below.get(level.id) or _Held(level.title)
            free = most - above.held
            share = ((self._leaves - 1) * free - node.held) // self._leaves
            most = node.held + max(0, min(free, max(share, max(1, most // _SMALL) - node.held)))
            if number == len(client.levels) - 1:
                most = min(most, self._most)
            yield node, most
            above = node
        if not client.levels:
            yield self._all, self.total

    def _refusal(self, count: int, doing: str, node: _Held, most: int) -> HalError:
        others = sorted(self._holders(self._all), key=lambda each: -each.held)
        shown = ", ".join(f"{each.title} has {each.held}" for each in others[:3] if each is not node)
        return HalError(
            ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT,
            f"{doing or 'the call'} takes {count} {self.what}; {node.title or 'this process'} holds {node.held} of the "
            f"{max(0, most)} that it may have at present, and all clients together hold {self._all.held} of "
            f"{self.total}{': ' if shown else ''}{shown}{self._way_out}",
        )

    def _holders(self, node: _Held) -> Iterator[_Held]:
        """Yield the clients themselves, without those through whom they ask."""
        for each in node.below.values():
            if each.below:
                yield from self._holders(each)
            else:
                yield each

    def _settle(self) -> None:
        while self._returned:
            client, count = self._returned.popleft()
            if not count:  # for which nobody is noted
                continue
            self._all.held -= count
            path: list[tuple[_Held, str]] = []
            node = self._all
            for level in client.levels:
                path.append((node, level.id))
                node = node.below[level.id]
                node.held -= count
            for above, name in reversed(path):
                if not above.below[name].held:
                    del above.below[name]
