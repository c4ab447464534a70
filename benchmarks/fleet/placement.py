"""Which hosts serve which model, and which models each host has loaded to begin with."""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from benchmarks.fleet.figures import HostFigures


class PlacementError(Exception):
    """Models that do not fit. The message says how many bytes there are, and how many would be needed."""


class PlacementPolicy(StrEnum):
    """How models are placed."""

    EVERYWHERE = "everywhere"
    """Each host has all models, which must fit."""
    HASHED = "hashed"
    """Each model has one host, by its hash. What does not fit at a time is loaded on demand."""
    COPIES = "copies"
    """Each model has the same number of hosts, by its hash. What does not fit at a time is loaded on demand."""
    POPULAR = "popular"
    """Each model has as many hosts as its load asks for, and all of them have it loaded."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where models are."""

    hosts: tuple[Sequence[int], ...]
    """For each model, the hosts to which its requests may go."""
    loaded: tuple[Sequence[int], ...]
    """For each host, what it has loaded to begin with, the least popular model first. It fits."""


def placed(
    policy: PlacementPolicy, hosts: int, shares: NDArray[np.float64], figures: HostFigures, copies: int = 2
) -> Placement:
    """Place models with these shares of the requests. Raises PlacementError.

    ``copies`` is the number of hosts of each model for COPIES, and the least for POPULAR, if there are as many hosts.
    """
    copies = min(copies, hosts)
    if policy is PlacementPolicy.EVERYWHERE:
        return _everywhere(hosts, shares, figures)
    if policy is PlacementPolicy.POPULAR:
        return _popular(hosts, shares, figures, copies)
    return _hashed(hosts, shares, figures, 1 if policy is PlacementPolicy.HASHED else copies)


def _everywhere(hosts: int, shares: NDArray[np.float64], figures: HostFigures) -> Placement:
    needed = sum(figures.kind_of(model).memory_bytes for model in range(len(shares)))
    if needed > figures.memory_bytes:
        raise PlacementError(
            f"everywhere: {len(shares)} models need {needed:,} bytes, and a host has {figures.memory_bytes:,}"
        )
    every = range(hosts)
    ascending = np.argsort(shares, kind="stable").tolist()
    return Placement((every,) * len(shares), (ascending,) * hosts)


def _hashed(hosts: int, shares: NDArray[np.float64], figures: HostFigures, copies: int) -> Placement:
    """Take the hosts with the highest hashes of model and host: if a host is added, few models move."""
    seeds = [_hash(f"host {host}") for host in range(hosts)]
    salts = np.array(seeds, np.uint64)
    chosen: list[list[int]] = []
    for model in range(len(shares)):
        mixed = _mixed(salts ^ np.uint64(_hash(f"model {model}")))
        chosen.append(np.argpartition(mixed, hosts - copies)[hosts - copies :].tolist())
    room = [figures.memory_bytes] * hosts
    loaded: list[list[int]] = [[] for _ in range(hosts)]
    for model in np.argsort(-shares, kind="stable").tolist():
        size = figures.kind_of(model).memory_bytes
        for host in chosen[model]:
            if size <= room[host]:
                room[host] -= size
                loaded[host].append(model)
    return Placement(tuple(chosen), tuple(own[::-1] for own in loaded))


def _popular(hosts: int, shares: NDArray[np.float64], figures: HostFigures, copies: int) -> Placement:
    """Give each model hosts in proportion to its load; the least loaded hosts with room for it take it."""
    loads = np.array([share * figures.kind_of(model).mean_seconds for model, share in enumerate(shares.tolist())])
    loads *= hosts / loads.sum()  # now 1 is what each host gets if all get the same
    room = [figures.memory_bytes] * hosts
    taken = [0.0] * hosts
    loaded: list[list[int]] = [[] for _ in range(hosts)]
    chosen: list[list[int]] = [[] for _ in range(len(shares))]
    for model in np.argsort(-loads, kind="stable").tolist():
        size = figures.kind_of(model).memory_bytes
        wanted = min(hosts, max(copies, 1 + math.ceil(loads[model])))
        able = [(taken[host], host) for host in range(hosts) if room[host] >= size]
        if len(able) < wanted:
            raise PlacementError(
                f"popular: {hosts} hosts of {figures.memory_bytes:,} bytes are too small for {len(shares)} models: "
                f"{wanted} should have model {model} with its {size:,} bytes, and {len(able)} have room"
            )
        for _, host in heapq.nsmallest(wanted, able):
            room[host] -= size
            taken[host] += loads[model] / wanted
            loaded[host].append(model)
            chosen[model].append(host)
    return Placement(tuple(chosen), tuple(own[::-1] for own in loaded))


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread the bits of each value over all bits (the finaliser of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
