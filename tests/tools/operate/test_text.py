from __future__ import annotations

import time

import pytest

from nnhal.v1 import supervisor_pb2
from nnhal_tools.operate.text import in_bytes, lasting, request_time, since, state_name


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 50, "5120.0 TiB")]
)
def test_bytes_have_a_unit(count: int, text: str) -> None:
    assert in_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0.0 s"), (3.21, "3.2 s"), (125, "2 min 5 s"), (7500, "2 h 5 min"), (100_000, "1 d 3 h")],
)
def test_times_have_two_units(seconds: float, text: str) -> None:
    assert lasting(seconds * 1e9) == text


def test_an_instant_that_is_not_known_is_empty() -> None:
    assert since(0) == ""
    assert since(time.clock_gettime_ns(time.CLOCK_BOOTTIME)).endswith(" s")


def test_durations_and_states() -> None:
    assert (request_time(None), request_time(1_234_567), request_time(12_345)) == ("-", "1.23 ms", "12.3 µs")
    assert state_name(supervisor_pb2.SupervisedProcess.STATE_DRAINED) == "drained"
