"""Tables of the ways to scale."""

from __future__ import annotations

import numpy as np

from benchmarks.scaling.outages import Outage
from benchmarks.scaling.senders import Destination, SentRequests
from benchmarks.scaling.ways import ALONE, HAPROXY, Way
from benchmarks.scaling.windows import WayResult, outage_table, overhead_table, throughput_table
from benchmarks.tables import markdown


def _result(name: str, protocol: str, rate: float, p50_ms: float, *processes: int) -> WayResult:
    way = Way(name, Destination(protocol, "", {}), processes)
    return WayResult(way, "tiny", 1, rate, p50_ms, 2 * p50_ms, 70.0, 0.05)


RESULTS = [
    _result(ALONE, "http", 100, 1.0),
    _result(ALONE, "grpc", 50, 2.0),
    _result(HAPROXY, "http", 190, 1.25, 7),
    _result(HAPROXY, "grpc", 100, 2.5, 7),
]


def test_a_latency_is_compared_with_that_of_one_host_over_the_same_protocol() -> None:
    text = markdown(overhead_table(RESULTS))
    assert "| tiny | one host, http | 1.00 ms |  | 2.00 ms |  | 5% |" in text
    assert "| tiny | HAProxy, http | 1.25 ms | +0.25 ms | 2.50 ms | 70 µs | 5% |" in text
    assert "| tiny | HAProxy, grpc | 2.50 ms | +0.50 ms |" in text


def test_a_rate_is_compared_with_that_of_one_host_over_the_same_protocol() -> None:
    text = markdown(throughput_table(RESULTS))
    assert "| tiny | HAProxy, http | 1 | 190 | 1.90 |" in text
    assert "| tiny | HAProxy, grpc | 1 | 100 | 2.00 |" in text
    assert "| tiny | HAProxy, grpc | 1 | 100 |  |" in markdown(throughput_table(RESULTS[3:]))


def test_what_was_lost_is_told() -> None:
    outage = Outage(RESULTS[2].way, 500, 2, 0.104, 1.2, "it ended")
    assert "| HAProxy, http | 500 | 2 | 0.10 s | 1.20 s | it ended |" in markdown(outage_table([outage]))


def test_only_what_was_answered_has_a_latency() -> None:
    sent = SentRequests(np.array([0.0, 0.5, 1.0]), np.array([0.5, 1.5, 2.0]), ["", "no", ""])
    assert sent.latencies.tolist() == [0.5, 1.0]
    assert (sent.failed, sent.rate) == (1, 1.0)
