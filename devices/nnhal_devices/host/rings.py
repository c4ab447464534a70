"""The datagrams of wired chains, as stages read and write them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from google.protobuf.message import DecodeError

from nnhal.codec import result_to_wire
from nnhal.link import ProtocolError
from nnhal.v1 import burst_pb2
from nnhal.v1 import chain_pb2 as wire
from nnhal_devices.host.burst_messages import encode_answer
from nnhal_devices.host.run_results import SUCCESS
from nnhal_devices.host.staging import NO_STAGING


class Gathering:
    """Collects one ring from each of several bells, run after run. Safe to use from several threads."""

    def __init__(self, bells: int) -> None:
        self._lock = threading.Lock()
        self._bells = bells
        self._rings: dict[int, bytes] = {}

    def add(self, bell: int, ring: bytes) -> Sequence[bytes]:
        """Add what a bell has rung; return all rings of the run if it was the last one, else none.

        Raises ProtocolError if the bell has rung already: a chain has one run at a time.
        """
        if self._bells == 1:
            return (ring,)
        with self._lock:
            if bell in self._rings:
                raise ProtocolError("a bell rang twice in one run")
            self._rings[bell] = ring
            if len(self._rings) < self._bells:
                return ()
            rings, self._rings = self._rings, {}
        return tuple(rings.values())


def parse_rings(messages: Sequence[bytes]) -> wire.Ring:
    """Decode the rings of one run and merge what they say of steps. Raises ProtocolError if one is malformed."""
    first, *others = messages
    ring = _parse(first)
    further = [_parse(message) for message in others if message != first]
    if further:
        steps = {answer.step: answer for each in (ring, *further) for answer in each.steps}
        del ring.steps[:]
        ring.steps.extend(steps[number] for number in sorted(steps))
    return ring


def failed_step(ring: wire.Ring) -> burst_pb2.BurstAnswer | None:
    """Return the answer of the first step that has failed in a run."""
    return next((step.answer for step in ring.steps if step.answer.status), None)


def encode_chain_answer(ring: wire.Ring) -> bytes:
    """Encode the answer to the call of a run that has ended."""
    if not ring.steps:
        return _PLAIN_ANSWER
    failed = failed_step(ring)
    if failed is None:
        answer = burst_pb2.BurstAnswer(result=result_to_wire(SUCCESS), steps=ring.steps)
    else:
        answer = burst_pb2.BurstAnswer(status=failed.status, message=failed.message, steps=ring.steps)
    return answer.SerializeToString()


def _parse(message: bytes) -> wire.Ring:
    try:
        return wire.Ring.FromString(message)
    except DecodeError as error:
        raise ProtocolError(f"{len(message)} bytes that are no Ring") from error


_PLAIN_ANSWER = encode_answer(SUCCESS, NO_STAGING)
