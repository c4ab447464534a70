"""A channel that is served."""

from __future__ import annotations

import select
from collections.abc import Callable

from nnhal.link import Channel, ChannelClosedError
from nnhal.link.channel import NothingReceivedError
from nnhal_hosting.polling.work import Work

Exchange = Callable[[], Work | None]
Ended = Callable[[BaseException], None]
_ATTENTION_SECONDS = 0.05
"""The time that a thread that attends to one channel waits for the next call on it."""


class ServedChannel:
    """A channel, and what is done with it. One thread at a time uses it, but for the work of earlier exchanges."""

    __slots__ = ("_ended", "_exchange", "channel", "error", "in_turn", "number")

    def __init__(self, channel: Channel, exchange: Exchange, ended: Ended, in_turn: bool) -> None:
        self.channel = channel
        self.number = channel.fileno()
        self.in_turn = in_turn
        self._exchange = exchange
        self._ended = ended
        self.error: BaseException | None = None
        if in_turn:
            channel.wait_at_most(_ATTENTION_SECONDS)

    @property
    def is_sending(self) -> bool:
        """Return whether the channel had no room for an answer: it is sent before the next exchange."""
        return self.channel.has_unsent and self.error is None

    @property
    def events(self) -> int:
        return select.EPOLLOUT if self.is_sending else select.EPOLLIN

    def take(self) -> Work | None:
        """Do one exchange. Afterwards ``error`` is what is to end the channel, if anything is.

        A channel whose exchanges are ``in_turn`` may be attended to: then this waits for a call, and returns None if
        there is none for a while.
        """
        if self.error is None:
            try:
                return self._exchange()
            except NothingReceivedError:
                return None
            except BaseException as error:
                self.fail(error)
        return None

    def do(self, work: Work) -> None:
        """Do the work of an exchange. If it raises, the channel shuts down, and the next ``take`` does nothing."""
        try:
            work.run()
        except BaseException as error:
            self.fail(error)
            self.channel.shutdown()

    def flush(self) -> None:
        """Send what the channel had no room for, as much as there is room for by now."""
        try:
            self.channel.flush()
        except ChannelClosedError as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Note what is to end the channel, unless something is already."""
        self.error = self.error or error

    def end(self) -> None:
        """End with what was raised."""
        error, self.error = self.error, None  # frames of its traceback refer to this object
        assert error is not None
        self._ended(error)
