"""The repository of a front worker, over a framework that a test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from nnhal.inference.model_config_pb2 import ModelConfig
from nnhal.link import channel_pair
from nnhal.link.channel import channel_from
from nnhal.types import Priority
from nnhal_service.front_workers.forwarding_model import ForwardingModel
from nnhal_service.front_workers.peer import Peer
from nnhal_service.front_workers.repository import RemoteRepository
from nnhal_service.front_workers.served_worker import HeldModel, OpenedVersion, ServedWorker, WorkerCounts
from nnhal_service.observability import MetricsOptions
from nnhal_service.observability.metrics.requests import RequestMetrics
from nnhal_service.serving import RequestServer, ServingConfig
from nnhal_service.serving.history.refused_calls import RefusedCalls
from nnhal_service.serving.requests.signature import ModelSignature
from tests.support.serving import shared_loop
from tests.support.waiting import wait_until


class CountedModel(HeldModel):
    """A model that is held until it is closed; its lease is none."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        self._close()


class HoldingFramework:
    """A framework with one model, of which one version serves."""

    def __init__(self) -> None:
        self.serial = 1
        self.opened: list[str] = []
        self.held: dict[int, int] = {}
        """The serials of the leases that are held."""
        self.before_answer: Callable[[], None] = lambda: None

    def open(self, name: str, version: str) -> OpenedVersion:
        self.opened.append(version)
        lease, serial = len(self.opened), self.serial
        self.held[lease] = serial
        self.before_answer()
        config, serving, signature = ModelConfig(name=name), ServingConfig(), ModelSignature(name, (), (), 0)
        held = CountedModel(lambda: self.release(lease))
        return OpenedVersion(held, serial, name, serial, config, serving, signature, "ashmem", 64, Priority.MEDIUM)

    def release(self, lease: int) -> None:
        del self.held[lease]

    def count(self, counts: WorkerCounts) -> None:
        for held, *_ in counts.models:
            assert isinstance(held, CountedModel) and not held.is_closed


@pytest.fixture
def holding() -> HoldingFramework:
    return HoldingFramework()


@pytest.fixture
def repository(holding: HoldingFramework) -> Iterator[RemoteRepository]:
    channel, theirs = channel_pair()
    gone = [threading.Event(), threading.Event()]
    with ThreadPoolExecutor(4) as executor:
        framework = Peer(channel, executor, gone[0].set, (HeldModel,))
        framework.serve({ServedWorker: holding})
        worker = Peer(channel_from(theirs), executor, gone[1].set)
        framework.start()
        worker.start()

        def serve(opened: OpenedVersion) -> RequestServer:
            return ForwardingModel(opened, shared_loop())

        metrics = RequestMetrics(MetricsOptions())
        found = RemoteRepository(worker.remote(ServedWorker), serve, metrics, RefusedCalls(), 30)
        yield found
        found.close()
        assert holding.held == {}
        worker.close()
        for end in gone:
            assert end.wait(30)


def test_a_version_is_opened_once(holding: HoldingFramework, repository: RemoteRepository) -> None:
    for _ in range(3):
        for version in ("", "1"):
            with repository.model("m", version) as lease:
                assert lease.version == "1"
    assert holding.opened == ["", "1"]
    assert list(holding.held) == [1]


def test_other_spellings_of_a_version_are_not_kept(holding: HoldingFramework, repository: RemoteRepository) -> None:
    for _ in range(2):
        repository.model("m", "01").release()
    assert holding.opened == ["01", "01"]


def test_a_version_that_no_longer_serves_is_released_when_its_requests_have_ended(
    holding: HoldingFramework, repository: RemoteRepository
) -> None:
    with repository.model("m", "") as old:
        holding.serial = 2
        repository.changed("m", {2})
        with repository.model("m", "") as new:
            assert (old.version, new.version) == ("1", "2")
        assert sorted(holding.held.values()) == [1, 2]
    wait_until(lambda: list(holding.held.values()) == [2], "the old version is released")


def test_a_version_that_stays_is_kept(holding: HoldingFramework, repository: RemoteRepository) -> None:
    repository.model("m", "").release()
    repository.changed("m", {1, 2})
    with repository.model("m", "") as lease:
        assert lease.version == "1"
    assert list(holding.held) == [1]


def test_a_version_that_stops_serving_while_it_is_opened_is_not_used(
    holding: HoldingFramework, repository: RemoteRepository
) -> None:
    def unload() -> None:
        holding.before_answer = lambda: None
        holding.serial = 2
        repository.changed("m", {2})

    holding.before_answer = unload
    with repository.model("m", "") as lease:
        assert lease.version == "2"
    assert list(holding.held.values()) == [2]
