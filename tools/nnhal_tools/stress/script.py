"""Script of each client of a stress run: data that can be drawn from a seed, kept, cut down and run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum


class SessionEnding(Enum):
    """End of a session. All but ``RELEASE`` are also actions, of the thread that ends the session."""

    RELEASE = "release"
    """Everything is waited for and released."""
    KILL = "session: kill"
    """The process is killed, in the midst of what its other threads do."""
    CLOSE = "session: close"
    """The link is closed while calls are under way."""
    EXIT = "session: exit"
    """The process ends without closing anything."""


ENDINGS = {ending.value: ending for ending in SessionEnding if ending is not SessionEnding.RELEASE}
"""The actions that end a session."""


@dataclass(frozen=True, slots=True)
class Act:
    """One action of a thread. Objects and arguments are chosen by the seed among what the thread holds by then."""

    action: str
    seed: int


@dataclass(frozen=True, slots=True)
class ClientScript:
    """Script of one client: a process with a session, whose threads act at the same time."""

    client: int
    """Its number, by which reports name it."""
    seed: int
    """By this its models and the objects that its threads share are chosen."""
    threads: tuple[tuple[Act, ...], ...]

    @property
    def actions(self) -> int:
        """Number of its threads' actions."""
        return sum(map(len, self.threads))

    @property
    def ending(self) -> SessionEnding:
        """End of the session if its threads come to the end of their actions."""
        ends = [ENDINGS[thread[-1].action] for thread in self.threads if thread and thread[-1].action in ENDINGS]
        return ends[0] if ends else SessionEnding.RELEASE

    def cut(self, begun: Sequence[int]) -> ClientScript:
        """Return it with only so many actions of each thread."""
        threads = tuple(acts[:count] for acts, count in zip(self.threads, begun, strict=True))
        return replace(self, threads=threads)

    def encode(self) -> bytes:
        """Encode it for the client's process."""
        return json.dumps(asdict(self)).encode()


def decode_client(content: bytes) -> ClientScript:
    """Decode what ``encode`` has made."""
    fields = json.loads(content)
    threads = tuple(tuple(Act(**act) for act in acts) for acts in fields["threads"])
    return ClientScript(fields["client"], fields["seed"], threads)


@dataclass(frozen=True, slots=True)
class StressScript:
    """Scripts of all clients, in the order in which they start."""

    sessions: int
    """How many clients there are at a time."""
    clients: tuple[ClientScript, ...]

    @property
    def actions(self) -> int:
        """Number of the clients' actions."""
        return sum(client.actions for client in self.clients)

    def with_clients(self, clients: Iterable[ClientScript]) -> StressScript:
        """Return it with other clients."""
        return replace(self, clients=tuple(clients))
