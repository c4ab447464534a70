"""Where models are placed."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.fleet.figures import HostFigures, ModelKind
from benchmarks.fleet.placement import Placement, PlacementError, PlacementPolicy, placed
from benchmarks.fleet.traces import zipf_shares

SHARES = zipf_shares(200, 1.0)


def figures(memory_bytes: int) -> HostFigures:
    """Return a host for models of 1 and of 3 bytes."""
    kinds = tuple(ModelKind(f"{size} bytes", (0.01,), (1.0,), size) for size in (1, 3))
    return HostFigures(kinds, 0.0, (0.0,), 2, memory_bytes=memory_bytes)


def bytes_of(placement: Placement, known: HostFigures) -> list[int]:
    return [sum(known.kind_of(model).memory_bytes for model in own) for own in placement.loaded]


@pytest.mark.parametrize(
    ("policy", "memory_bytes"),
    [
        (PlacementPolicy.EVERYWHERE, 400),
        (PlacementPolicy.HASHED, 20),
        (PlacementPolicy.COPIES, 20),
        (PlacementPolicy.POPULAR, 60),
        (PlacementPolicy.POPULAR, 400),
    ],
)
def test_no_placement_exceeds_the_memory_of_a_host(policy: PlacementPolicy, memory_bytes: int) -> None:
    known = figures(memory_bytes)
    placement = placed(policy, 20, SHARES, known)
    assert max(bytes_of(placement, known)) <= memory_bytes
    assert all(len(set(hosts)) == len(hosts) > 0 for hosts in placement.hosts)
    for host, own in enumerate(placement.loaded):
        assert len(set(own)) == len(own)
        assert all(host in placement.hosts[model] for model in own)


@pytest.mark.parametrize(
    ("policy", "memory_bytes", "words"),
    [
        (PlacementPolicy.EVERYWHERE, 399, "200 models need 400 bytes, and a host has 399"),
        (PlacementPolicy.POPULAR, 40, "20 hosts of 40 bytes are too small for 200 models"),
    ],
)
def test_models_that_do_not_fit_are_refused_with_the_bytes(
    policy: PlacementPolicy, memory_bytes: int, words: str
) -> None:
    with pytest.raises(PlacementError, match=words):
        placed(policy, 20, SHARES, figures(memory_bytes))


@pytest.mark.parametrize(("policy", "copies"), [(PlacementPolicy.HASHED, 1), (PlacementPolicy.COPIES, 3)])
def test_a_model_has_as_many_hosts_as_it_should_and_hosts_have_about_as_many_models(
    policy: PlacementPolicy, copies: int
) -> None:
    placement = placed(policy, 10, zipf_shares(1000, 1.0), figures(1 << 30), 3)
    assert {len(hosts) for hosts in placement.hosts} == {copies}
    counts = Counter(host for hosts in placement.hosts for host in hosts)
    assert all(0.7 * copies * 100 < counts[host] < 1.3 * copies * 100 for host in range(10))


def test_a_further_host_takes_its_share_of_the_models_and_moves_no_others() -> None:
    before, after = (placed(PlacementPolicy.HASHED, hosts, SHARES, figures(1 << 30)).hosts for hosts in (10, 11))
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert moved and {tuple(new) for new in moved} == {(10,)}


def test_a_popular_model_has_as_many_hosts_as_its_load_asks_for() -> None:
    placement = placed(PlacementPolicy.POPULAR, 20, SHARES, figures(400))
    counts = [len(hosts) for hosts in placement.hosts]
    assert counts[0] == 1 + -(-20 * SHARES[0] // 1)
    assert min(counts) == 2 and counts[0] > counts[1] > counts[5]
    load = [0.0] * 20
    for share, hosts in zip(SHARES.tolist(), placement.hosts, strict=True):
        for host in hosts:
            load[host] += share / len(hosts)
    assert max(load) < 1.05 * min(load)


def test_the_most_popular_models_are_loaded_and_unloaded_last() -> None:
    placement = placed(PlacementPolicy.HASHED, 1, SHARES, figures(20))
    (own,) = placement.loaded
    assert list(own) == sorted(own, reverse=True) and own[-1] == 0
