"""Counts of copies in a device process."""

from __future__ import annotations

from nnhal.types import Copy
from nnhal_devices.host.memory.counters import Counters


def test_copies_over_a_network_count_by_their_direction() -> None:
    counters = Counters()
    counters.add_copies([Copy(False, 100, 1, 2, True), Copy(False, 7, 2, 3), Copy(True, 40, 3, 4, True)])
    assert (counters.wire_up_bytes, counters.wire_down_bytes) == (100, 40)


def test_buffers_on_another_host_are_filled_and_read_over_the_network() -> None:
    here, there = Counters(), Counters(is_distant=True)
    for counters in (here, there):
        counters.add_buffer_copy(8, is_output=False)
        counters.add_buffer_copy(3, is_output=True)
        assert counters.buffer_copied_bytes == 11
    assert (here.wire_up_bytes, here.wire_down_bytes) == (0, 0)
    assert (there.wire_up_bytes, there.wire_down_bytes) == (8, 3)
