"""Requests to two hosts that run, by each way between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http

from benchmarks.fleet.measuring import measured_requests
from benchmarks.generators import BenchError
from benchmarks.scaling.haproxy import running_haproxy
from benchmarks.scaling.hosts import LONG, MODELS, SHORT, TINY, WORKERS, running_hosts
from benchmarks.scaling.outages import measure_outage
from benchmarks.scaling.ray_serve import RayServeError, running_ray
from benchmarks.scaling.senders import Destination, Sender
from benchmarks.scaling.ways import Way, ways_alone, ways_by_client, ways_by_haproxy
from benchmarks.scaling.windows import measure_ways
from benchmarks.testbeds import RunningTestbed

pytestmark = pytest.mark.slow
_MILLISECONDS = 5.0


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[RunningTestbed]]:
    """Two hosts, of which the last test kills one."""
    with running_hosts(tmp_path_factory.mktemp("hosts"), 2, _MILLISECONDS) as found:
        yield found


@pytest.fixture(scope="module")
def by_haproxy(hosts: Sequence[RunningTestbed], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Way]]:
    """The ways through HAProxy."""
    if shutil.which("haproxy") is None and "NNHAL_HAPROXY" not in os.environ:
        pytest.skip("needs haproxy on the PATH, or a binary that NNHAL_HAPROXY names")
    with running_haproxy(tmp_path_factory.mktemp("haproxy"), hosts) as haproxy:
        yield ways_by_haproxy(haproxy)


def _counts(hosts: Sequence[RunningTestbed], model: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many requests for a model each host has answered."""
    counts = []
    for host in hosts:
        with tritonclient.http.InferenceServerClient(host.addresses["http"]) as client:
            (found,) = client.get_inference_statistics(model)["model_stats"]
            counts.append(int(found["inference_stats"]["success"]["count"]))
    return np.array(counts)


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_sender_keeps_as_many_requests_under_way_as_it_should(hosts: Sequence[RunningTestbed], protocol: str) -> None:
    before = _counts(hosts, TINY)
    with Sender(Destination(protocol, hosts[0].addresses[protocol], MODELS)) as sender:
        sent = sender.keep_busy(TINY, 3, 0.1).require_none_failed("requests")
    assert len(sent.latencies) == len(sent.errors) >= 3
    assert (_counts(hosts, TINY) - before).tolist() == [len(sent.errors), 0]


def test_requests_are_replayed_at_their_instants(hosts: Sequence[RunningTestbed]) -> None:
    instants = [0.0, 0.0, 0.01, 0.1]
    with Sender(ways_alone(hosts[0])[0].destination) as sender:
        sent = sender.replay(instants, [SHORT, SHORT, LONG, TINY])
    assert sent.failed == 0 and sorted(sent.due.tolist()) == instants
    assert (sent.ended > sent.due).all()


def test_requests_that_fail_are_told_with_the_servers_words(hosts: Sequence[RunningTestbed]) -> None:
    destination = Destination("grpc", hosts[0].addresses["grpc"], {"nowhere": (1, 4)})
    with Sender(destination) as sender:
        sent = sender.replay([0.0, 0.0], ["nowhere", "nowhere"])
    assert sent.failed == 2 and len(sent.latencies) == 0
    with pytest.raises(BenchError, match=r"a test: 2 of 2 failed: .*nowhere"):
        sent.require_none_failed("a test")


def test_a_client_that_knows_both_hosts_takes_them_in_turn(hosts: Sequence[RunningTestbed]) -> None:
    (way,) = ways_by_client(hosts)
    before = _counts(hosts, TINY)
    with Sender(way.destination) as sender:
        sender.keep_busy(TINY, 2, 0.2).require_none_failed(way.title)
    first, second = (_counts(hosts, TINY) - before).tolist()
    assert first > 0 and abs(first - second) <= 0.1 * (first + second) + 2


def test_large_tensors_pass_a_client_that_knows_both_hosts(hosts: Sequence[RunningTestbed]) -> None:
    (way,) = ways_by_client(hosts)
    with Sender(way.destination) as sender:
        assert sender.replay([0.0, 0.0], ["large", "large"]).failed == 0


def test_haproxy_sends_requests_of_both_protocols_to_both_hosts(
    hosts: Sequence[RunningTestbed], by_haproxy: Sequence[Way]
) -> None:
    for way in by_haproxy:
        before = _counts(hosts, SHORT)
        with Sender(way.destination) as sender:
            sender.keep_busy(SHORT, 4, 0.2).require_none_failed(way.title)
            assert sender.replay([0.0], ["large"]).failed == 0
        assert (_counts(hosts, SHORT) - before).min() > 0


def test_ways_are_measured_in_turn_and_one_that_fails_is_left_out(hosts: Sequence[RunningTestbed]) -> None:
    nobody = Way("nobody", Destination("grpc", "127.0.0.1:1", MODELS))
    said: list[str] = []
    alone = Way("alone", ways_alone(hosts[0])[0].destination, (hosts[0].pids["framework"],))
    (result,) = measure_ways([nobody, alone], TINY, 1, 0.05, 2, said.append)
    assert result.way is alone and result.rate > 0 and 0 < result.p50_ms <= result.p99_ms
    assert result.between_us > 0
    assert any("nobody, grpc is left out" in line for line in said)


def test_a_host_is_measured_from_outside(hosts: Sequence[RunningTestbed]) -> None:
    with Sender(ways_alone(hosts[0])[0].destination) as sender:
        found = measured_requests(sender, [hosts[0].pids["framework"]], [SHORT, LONG], WORKERS, 0.1, 1)
    assert found.front_seconds > 0 and min(found.way_seconds) >= 0
    # The mean follows from a rate, so it is above zero however noisy the latencies are.
    assert all(min(times) >= 0 and np.mean(times) > 0 for times in found.service_seconds.values())
    assert set(found.service_seconds) == {SHORT, LONG}


def test_ray_that_is_not_installed_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no Ray here >&2\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setenv("NNHAL_RAY", str(python))
    with pytest.raises(RayServeError, match=r"NNHAL_RAY; .*no Ray here"), running_ray(tmp_path, tmp_path, 1.0):
        pass


def test_after_the_death_of_a_host_requests_go_to_the_other(hosts: Sequence[RunningTestbed]) -> None:
    (way,) = ways_by_client(hosts)
    outage = measure_outage(way, SHORT, 4, 1.5, hosts[1].kill, at=0.3)
    assert outage.requests > outage.failed
    with Sender(way.destination) as sender:
        assert sender.keep_busy(SHORT, 4, 0.3).failed == 0
