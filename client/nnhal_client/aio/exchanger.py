"""The exchanges of one binding in an event loop, without a thread: the loop waits for the channels."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from nnhal.errors import DeadObjectError, NnhalError
from nnhal.link import Channel
from nnhal_client.core.binding_runs import Exchanges
from nnhal_client.reports import RunReport

_Advance = Callable[[Exchanges], tuple[Channel, bytes]]


class Exchanger:
    """Drives the runs of one binding, one at a time.

    A run goes on when its task is cancelled, since the devices write the memory.
    """

    def __init__(self) -> None:
        self._watched: dict[Channel, tuple[asyncio.AbstractEventLoop, int]] = {}
        self._exchanges: Exchanges | None = None
        self._awaited: Channel | None = None
        self._outcome: asyncio.Future[RunReport] | None = None
        self._abandoned: Callable[[], None] = _nothing

    async def run(self, exchanges: Exchanges, abandoned: Callable[[], None]) -> RunReport:
        """One run. Raises the errors of ``exchanges``.

        If the task is cancelled meanwhile, ``abandoned`` is called when the run has ended.
        """
        outcome: asyncio.Future[RunReport] = asyncio.get_running_loop().create_future()
        self._outcome = outcome
        self._abandoned = abandoned
        self._exchanges = exchanges
        self._step(next)
        try:
            return await outcome
        except asyncio.CancelledError:
            if not outcome.cancelled():  # the run had ended before the task was cancelled
                abandoned()
            raise

    def close(self) -> None:
        """Wait for nothing any more: a run that is under way fails."""
        for channel in list(self._watched):
            self._forget(channel)
        if self._exchanges is not None:
            self._exchanges.close()
            self._end(DeadObjectError("the session has been closed"))

    def _step(self, advance: _Advance) -> None:
        """Go on with the run until it has to wait for an answer."""
        while self._exchanges is not None:
            try:
                channel, message = advance(self._exchanges)
            except StopIteration as end:
                self._end(end.value)
                return
            except Exception as error:  # the caller gets it
                self._end(error)
                return
            try:
                channel.send(message)  # the socket has room: at most one datagram is under way
                self._await(channel)
                return
            except NnhalError as error:
                self._forget(channel)
                advance = partial(_throw, error)

    def _await(self, channel: Channel) -> None:
        self._awaited = channel
        if channel not in self._watched:
            loop, number = asyncio.get_running_loop(), channel.fileno()
            self._watched[channel] = loop, number
            loop.add_reader(number, self._readable, channel)

    def _readable(self, channel: Channel) -> None:
        if channel is not self._awaited:  # the other side has closed it, which the next run will notice
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
        watched = self._watched.pop(channel, None)
        if watched is not None:
            loop, number = watched
            loop.remove_reader(number)

    def _end(self, ending: RunReport | Exception) -> None:
        outcome, self._outcome, self._exchanges, self._awaited = self._outcome, None, None, None
        abandoned, self._abandoned = self._abandoned, _nothing  # it refers to whoever has the binding
        if outcome is None:
            return
        if outcome.cancelled():
            abandoned()
        elif isinstance(ending, Exception):
            outcome.set_exception(ending)
        else:
            outcome.set_result(ending)


def _throw(error: NnhalError, exchanges: Exchanges) -> tuple[Channel, bytes]:
    return exchanges.throw(error)


def _send(answer: bytes, exchanges: Exchanges) -> tuple[Channel, bytes]:
    return exchanges.send(answer)


def _nothing() -> None:
    pass
