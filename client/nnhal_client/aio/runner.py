"""Runs of one binding in an event loop, without a thread: the loop waits for its channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Channel
from nnhal.types import NO_DEADLINE
from nnhal_client.binding import Binding
from nnhal_client.direct import Exchanges
from nnhal_client.reports import RunReport

_Advance = Callable[[Exchanges], tuple[Channel, bytes]]


class Runner:
    """A binding. One run at a time; a run goes on when its task is cancelled, since the device writes the memory."""

    def __init__(self, binding: Binding, generation: int) -> None:
        """``generation`` is of which opening of the model it is."""
        self.binding = binding
        self.generation = generation
        self._loop = asyncio.get_running_loop()
        self._watched: dict[Channel, int] = {}
        self._exchanges: Exchanges | None = None
        self._awaited: Channel | None = None
        self._outcome: asyncio.Future[RunReport] | None = None
        self._abandoned: Callable[[], None] = lambda: None

    async def run(self, abandoned: Callable[[], None], deadline_ns: int = NO_DEADLINE) -> RunReport:
        """One run. Raises as ``Binding.run``.

        Where the task is cancelled while it is under way, ``abandoned`` is called when it has ended.
        """
        outcome: asyncio.Future[RunReport] = self._loop.create_future()
        self._outcome = outcome
        self._abandoned = abandoned
        self._exchanges = self.binding.exchanges(deadline_ns)
        self._step(next)
        try:
            return await outcome
        except asyncio.CancelledError:
            if not outcome.cancelled():  # it had ended, and nobody else has been told
                abandoned()
            raise

    def close(self) -> None:
        """Wait for nothing any more: a run under way fails. The binding is to be closed by the caller."""
        for channel in list(self._watched):
            self._forget(channel)
        if self._exchanges is not None:
            self._exchanges.close()
            self._end(DeadObjectError("the session has been closed"))

    def _step(self, advance: _Advance) -> None:
        """Go on with the run until something is to be waited for."""
        while self._exchanges is not None:
            try:
                channel, message = advance(self._exchanges)
            except StopIteration as end:
                self._end(end.value)
                return
            except Exception as error:  # it is the caller's
                self._end(error)
                return
            try:
                channel.send(message)  # in lockstep there is room for a datagram
                self._await(channel)
                return
            except NnhalError as error:
                self._forget(channel)
                advance = partial(_throw, error)

    def _await(self, channel: Channel) -> None:
        self._awaited = channel
        if channel not in self._watched:
            self._watched[channel] = channel.fileno()
            self._loop.add_reader(channel.fileno(), self._readable, channel)

    def _readable(self, channel: Channel) -> None:
        if channel is not self._awaited:  # the other side has closed it: the next run will see
            self._forget(channel)
            return
        self._awaited = None
        try:
            answer = channel.receive()
        except NnhalError as error:
            self._forget(channel)
            self._step(partial(_throw, error))
        else:
            self._step(partial(_send, answer))

    def _forget(self, channel: Channel) -> None:
        number = self._watched.pop(channel, None)
        if number is not None:
            self._loop.remove_reader(number)

    def _end(self, ending: RunReport | Exception) -> None:
        outcome, self._outcome, self._exchanges, self._awaited = self._outcome, None, None, None
        if outcome is None:
            return
        if outcome.cancelled():
            self._abandoned()
        elif isinstance(ending, Exception):
            outcome.set_exception(ending)
        else:
            outcome.set_result(ending)


def _throw(error: NnhalError, exchanges: Exchanges) -> tuple[Channel, bytes]:
    return exchanges.throw(error)


def _send(answer: bytes, exchanges: Exchanges) -> tuple[Channel, bytes]:
    return exchanges.send(answer)
