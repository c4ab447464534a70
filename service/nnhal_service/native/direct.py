"""Bursts of a client's own: the device runs its binding, and the framework is not in between."""

from __future__ import annotations

from nnhal.errors import NnhalError
from nnhal.v1 import framework_pb2 as wire
from nnhal_service.native.client import Binding, Client

MAX_DIRECT_BURSTS = 64
"""Of one session. Each takes a thread of its device."""


def lend(client: Client, binding: Binding, limit: int) -> wire.DirectBurst | None:
    """Give the client a burst to the device; None where plan, device or limit allow none, and the client does without.

    Nor does a client have one whose runs have a rate: the framework learns of direct runs afterwards only.
    The device ends it with the binding: when that is released, its model unloaded, or the session over.
    """
    if client.is_rate_limited or sum(other.context.has_run_channel for other in client.all(Binding)) >= limit:
        return None
    try:
        lent = binding.context.open_run_channel()
        if lent is None:
            return None
        number = client.descriptors.offer(lent.channel)
    except NnhalError:  # a device that has no such channels, or is gone: runs will tell
        return None
    may_fall_back = binding.model.prepared.parts.may_fall_back
    return wire.DirectBurst(channel_descriptor_id=number, execution=lent.execution, may_fall_back=may_fall_back)
