"""Receiving the messages of unary calls: few at a time, so that their memory is bounded before anybody admits them.

To gRPC such a call is a stream of requests, whose first message is asked for here. Of a call that waits for its turn,
gRPC holds 16 KiB at most (``nnhal_hosting.calls.limits``). Of one that is received, nobody knows how many bytes gRPC
holds, until it is complete. So what the process takes is looked at while messages take their time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from nnhal_hosting.own_memory import OwnBytes, return_freed_memory
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.v2.grpc.calls import Context

_LOOK_SECONDS = 0.02
"""How often the memory is looked at. What the network carries meanwhile may exceed the limit."""
_BETWEEN_LOOKS = 4
"""Messages that may begin and not have come between two looks: none of them has been seen to take memory."""
_PATIENCE_SECONDS = 1.0
"""The time that a message may take while other calls wait for their turn."""


class MessageReceiver:
    """Bounds how many messages are received at a time. It belongs to the loop's thread.

    A message that does not come keeps others waiting for a second, and then its call ends with RESOURCE_EXHAUSTED. As
    long as nobody waits, it may take its time.
    """

    def __init__(self, limit: int, limit_bytes: int = -1, used: Callable[[], int] | None = None) -> None:
        """The process may grow by ``limit_bytes`` while messages come, by any number if that is -1. Beyond it, all of
        them but the oldest end with RESOURCE_EXHAUSTED. ``used`` says what it has.
        """
        self._limit = limit
        self._limit_bytes = limit_bytes
        self._used = used or OwnBytes()
        self._look_at_memory: asyncio.TimerHandle | None = None
        self._used_before = 0
        """What the process had before the first of the messages that are looked at."""
        self._must_return_memory = False
        self._is_returning = False
        self._receiving: dict[asyncio.Task[object], float] = {}
        """When each task began to receive, in the order in which they did."""
        self._unseen: set[asyncio.Task[object]] = set()
        """Those that have begun since the last look at the memory."""
        self._ended: dict[asyncio.Task[object], str] = {}
        """Tasks that are cancelled, and why."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._look: asyncio.TimerHandle | None = None

    async def receive(self, context: Context) -> bytes:
        """The message of a call. Raises ServingError if there is none, or if it is ended for others."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        while not self._may_begin():
            await self._turn(loop)
        self._receiving[task] = loop.time()
        if self._waiting:
            self._watch(loop)
        if self._limit_bytes >= 0:
            self._unseen.add(task)
            if self._look_at_memory is None:
                self._used_before = self._used()
                self._look_at_memory = loop.call_later(_LOOK_SECONDS, self._bound_memory, loop)
        try:
            data = await context.read()
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            task.uncancel()
            raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, self._ended[task]) from None
        finally:
            del self._receiving[task]
            self._unseen.discard(task)
            self._ended.pop(task, None)
            self._let_next()
        if not isinstance(data, bytes):
            raise ServingError(ErrorKind.INVALID_ARGUMENT, "a call without a request, expected one message")
        return data

    def _may_begin(self) -> bool:
        return len(self._receiving) < self._limit and len(self._unseen) < _BETWEEN_LOOKS

    async def _turn(self, loop: asyncio.AbstractEventLoop) -> None:
        """Wait until a call has its message, or its client has left; later calls may be faster."""
        turn = loop.create_future()
        self._waiting.append(turn)
        self._watch(loop)
        try:
            await turn
        except asyncio.CancelledError:
            with suppress(ValueError):
                self._waiting.remove(turn)
            if turn.done() and not turn.cancelled():
                self._let_next()
            raise

    def _let_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the oldest message that is received when it has had its time."""
        if self._look is None:
            oldest = next((began for task, began in self._receiving.items() if task not in self._ended), None)
            if oldest is not None:
                self._look = loop.call_at(oldest + _PATIENCE_SECONDS, self._end_late, loop)

    def _end_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """End as many calls whose messages have had their time as calls wait."""
        self._look = None
        if len(self._receiving) < self._limit:  # the others wait for the next look only
            return
        late = [
            task
            for task, began in self._receiving.items()
            if loop.time() - began >= _PATIENCE_SECONDS and task not in self._ended
        ]
        message = f"the message has not come within {_PATIENCE_SECONDS:.0f} s, while other calls wait to send theirs"
        for task in late[: max(0, len(self._waiting) - len(self._ended))]:
            self._end(task, message)
        if len(self._waiting) > len(self._ended):
            self._watch(loop)

    def _bound_memory(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the memory while a message has not come since the last look, and end messages if it has grown."""
        self._look_at_memory = None
        self._unseen.clear()
        seen = loop.time() - _LOOK_SECONDS
        slow = [task for task, began in self._receiving.items() if began <= seen and task not in self._ended]
        grown = self._used() - self._used_before
        if slow:
            if grown > self._limit_bytes:
                self._must_return_memory = True
                message = f"messages that are received at a time have taken {self._limit_bytes} bytes, the limit"
                for task in [task for task in self._receiving if task not in self._ended][1:]:
                    self._end(task, message)
        elif (self._must_return_memory or grown > self._limit_bytes // 2) and not self._is_returning:
            # What messages have freed would be taken for growth, and what is kept of it adds up.
            returning = loop.run_in_executor(None, return_freed_memory)  # raises if no thread can be started
            self._must_return_memory, self._is_returning = False, True
            returning.add_done_callback(self._returned)
        for _ in range(_BETWEEN_LOOKS):
            self._let_next()
        if self._receiving or self._waiting or self._must_return_memory:
            self._look_at_memory = loop.call_later(_LOOK_SECONDS, self._bound_memory, loop)

    def _returned(self, _: asyncio.Future[None]) -> None:
        """Take what the process has now for its own, however many messages follow one another."""
        self._is_returning = False
        self._used_before = self._used()

    def _end(self, task: asyncio.Task[object], reason: str) -> None:
        self._ended[task] = reason
        task.cancel()
