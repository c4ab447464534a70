"""What the other hosts do for one: they answer what its framework cannot, and have the states of their sequences."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle

from nnhal_ray.fan_out import FanOut
from nnhal_ray.messages import Call, Reply
from nnhal_ray.sequences import HeldSequences, SequenceName, SequenceTurn, in_form_of, loss_of, lost

_SECONDS = 10.0
"""How long a request is asked again: a framework that was killed serves again within that time."""
_PAUSE_SECONDS = 0.1
_READY_SECONDS = 1.0
_RUN_SECONDS = 600.0
_ASKED_AGAIN = "nnhal_ray_asked_again_total"
_LOST = "nnhal_ray_lost_sequences_total"


class Colleagues:
    """The other hosts, as one host sees them, for one event loop."""

    def __init__(
        self,
        node: str,
        hosts: DeploymentHandle[Any],
        fan_out: FanOut,
        forward: Callable[[Call], Awaitable[Reply]],
        is_ready: Callable[[float], Awaitable[bool]],
        share_models: bool,
    ) -> None:
        """``forward`` has this host's framework answer. ``share_models``: all hosts have the same models."""
        self._node = node
        self._hosts = hosts.options(method_name="answer_for_another") if share_models else None
        self._fan_out = fan_out
        self._forward = forward
        self._is_ready = is_ready
        self._sequences = HeldSequences()
        self._answered: Counter[bool] = Counter()
        self._lost = 0

    async def again(self, call: Call, failure: Reply) -> Reply:
        """The answer to an inference that this host has failed: another host's, or this one's once it serves again.

        ``failure`` if there is none in time. An inference changes nothing, so it may run twice. Serve cancels this if
        the client waits no more.
        """
        end, reply = time.monotonic() + _SECONDS, failure
        while reply.is_unanswered and time.monotonic() < end:
            found = await self._elsewhere(call)
            if found is None and await self._is_ready(_READY_SECONDS):
                found = await self._forward(call)
            reply = found or reply
            if reply.is_unanswered:
                await asyncio.sleep(_PAUSE_SECONDS)
        self._answered[not reply.is_unanswered] += 1
        return reply

    async def answer_for(self, node: str, call: Call) -> Reply | None:
        """Answer what another host cannot; None if that is this one."""
        return None if node == self._node else await self._forward(call)

    async def in_sequence(self, turn: SequenceTurn, call: Call) -> Reply:
        """Answer a request of a sequence here if it starts here, or on the host that has its state."""
        name = turn.name
        if turn.starts:
            with suppress(TimeoutError):  # a host that hangs is replaced, and its states are lost
                await self._fan_out.tell("forget_sequence", name, self._node)
            self._sequences.begin(name)
        elif name not in self._sequences:
            told: list[Reply | None] = []
            with suppress(TimeoutError):
                told = await self._fan_out.tell("answer_in_sequence", turn, call, seconds=_RUN_SECONDS)
            found = next((reply for reply in told if reply is not None), None)
            return found or self._told(call, name, "no host has its state; the one that had it has ended")
        return await self.take_turn(turn, call) or self._told(call, name, "it has started on another host")

    async def take_turn(self, turn: SequenceTurn, call: Call) -> Reply | None:
        """Answer a request of a sequence that this host has; None if it has it not."""
        name = turn.name
        if name not in self._sequences:
            return None
        if not self._sequences.takes(name, call):
            self._sequences.forget(name)
            return self._told(call, name, "a request of it came twice, since the host that passed it on has ended")
        reply = await self._forward(call)
        loss = loss_of(reply)
        if loss or turn.ends:
            self._sequences.forget(name)
        return self._told(call, name, loss) if loss else reply

    async def forget(self, name: SequenceName, node: str) -> None:
        """A sequence starts on a node."""
        if node != self._node:
            self._sequences.forget(name)

    @property
    def metrics(self) -> str:
        """The counts, as Prometheus reads them."""
        lines = [
            f"# HELP {_ASKED_AGAIN} Inferences that were asked again since the host's framework did not answer",
            f"# TYPE {_ASKED_AGAIN} counter",
            f'{_ASKED_AGAIN}{{outcome="answered"}} {self._answered[True]}',
            f'{_ASKED_AGAIN}{{outcome="failed"}} {self._answered[False]}',
            f"# HELP {_LOST} Requests of sequences that were told that the state is lost",
            f"# TYPE {_LOST} counter",
            f"{_LOST} {self._lost}",
        ]
        return "".join(f"{line}\n" for line in lines)

    def _told(self, call: Call, name: SequenceName, why: str) -> Reply:
        self._lost += 1
        return in_form_of(call, lost(name, why))

    async def _elsewhere(self, call: Call) -> Reply | None:
        """What a host answers that Serve chooses; None if that is this one, or there is none."""
        if self._hosts is None:
            return None
        try:
            reply: Reply | None = await self._hosts.remote(self._node, call)
            return reply
        except (RayError, RayServeException):  # it has ended too, or has too much to do
            return None
