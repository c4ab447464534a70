"""Reusable executions and bursts, with the requests that they are used for."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from nnhal.remote import RemoteBurst, RemoteExecution
from nnhal_tools.stress import wire
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.launches import HeldLaunch
from nnhal_tools.stress.plan import RequestPlan


@dataclass(eq=False)
class HeldExecution:
    """A reusable execution, and its launch if that has not been settled."""

    plan: RequestPlan
    remote: RemoteExecution
    launch: HeldLaunch | None = None
    on_channel: bool = False


@dataclass(eq=False)
class HeldBurst:
    """A burst with its requests."""

    prepared: PreparedSpecimen
    """The prepared model."""
    remote: RemoteBurst
    """The burst on the device."""
    named: bool
    """Whether memory has tokens of this object instead of the remote burst's."""
    plans: list[RequestPlan] = field(default_factory=list)
    """Requests that it executes again."""
    tokens: dict[int, int] = field(default_factory=dict)
    """Tokens by the identity of memory blocks."""
    _numbers: count[int] = field(default_factory=count)

    @property
    def wire(self) -> wire.WireBurst:
        """Return the burst over gRPC instead of its channel."""
        return wire.WireBurst(self.prepared.remote.calls, self.remote.handle)

    def tokens_of(self, plan: RequestPlan) -> list[int]:
        """A token for each pool of a request."""
        for block in plan.blocks:
            if id(block) not in self.tokens:
                self.tokens[id(block)] = next(self._numbers)
        known = [self.tokens[id(block)] for block in plan.blocks]
        return known + [-1] * (len(plan.request.pools) - len(known))

    def drop(self, plan: RequestPlan) -> None:
        """Forget a request and the tokens of its memory."""
        self.plans.remove(plan)
        for block in plan.blocks:
            self.tokens.pop(id(block), None)
