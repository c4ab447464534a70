from __future__ import annotations

import pytest

from nnhal.link import channel_pair
from nnhal.link.channel import channel_from
from nnhal.v1 import framework_pb2 as wire


@pytest.mark.parametrize("deadline_ns", [-1, 0, 1, 2**63 - 1])
def test_a_run_is_a_datagram_of_its_own_whatever_its_deadline(deadline_ns: int) -> None:
    """An empty one would read as the end of the channel."""
    ours, theirs = channel_pair()
    ours.send(wire.RunCall(deadline_ns=deadline_ns).SerializeToString())
    assert wire.RunCall.FromString(channel_from(theirs).receive()).deadline_ns == deadline_ns
