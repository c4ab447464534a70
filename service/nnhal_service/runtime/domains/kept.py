"""Who needs which memory of a session."""

from __future__ import annotations

import threading

from nnhal.errors import HalError, invalid_argument
from nnhal.types import ErrorStatus
from nnhal_service.runtime.domains.allocated import AllocatedMemory


class Memories:
    """The memory of one session: each is kept as long as anybody needs it, and no longer than the session.

    Whoever needs it is known by identity. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[AllocatedMemory, list[object]] | None = {}

    def keep(self, memory: AllocatedMemory, user: object) -> None:
        """Keep memory for a user.

        Raises INVALID_ARGUMENT where it was given up meanwhile; DEVICE_UNAVAILABLE where the session is over, and gives
        it up.
        """
        with self._lock:
            if self._users is not None and not memory.closed:
                self._users.setdefault(memory, []).append(user)
                return
            over = self._users is None
        memory.close()
        if over:
            raise HalError(ErrorStatus.DEVICE_UNAVAILABLE, "the session is over")
        invalid_argument("the memory has been freed")

    def drop(self, user: object) -> None:
        """A user needs no memory any more; harmless when repeated."""
        unused: list[AllocatedMemory] = []
        with self._lock:
            for memory, users in list((self._users or {}).items()):
                users[:] = [other for other in users if other is not user]
                if not users and self._users is not None:
                    del self._users[memory]
                    unused.append(memory)
        for memory in unused:
            memory.close()

    def close(self) -> None:
        """The session is over: give up all of it; harmless when repeated."""
        with self._lock:
            users, self._users = self._users or {}, None
        for memory in users:
            memory.close()
