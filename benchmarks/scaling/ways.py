"""The ways from a client to hosts that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.scaling.haproxy import RunningHaproxy
from benchmarks.scaling.hosts import MODELS
from benchmarks.scaling.senders import Destination
from benchmarks.testbeds import RunningTestbed

ALONE, HAPROXY, CLIENT_SIDE, RAY = "one host", "HAProxy", "client-side round robin", "Ray Serve"
PROTOCOLS = ("http", "grpc")


@dataclass(frozen=True, slots=True)
class Way:
    """One way over one protocol."""

    name: str
    """What stands between client and hosts."""
    destination: Destination
    """What the client is given."""
    processes: tuple[int, ...] = ()
    """What stands between: the ids of its processes."""

    @property
    def title(self) -> str:
        """The name with the protocol."""
        return f"{self.name}, {self.destination.protocol}"


def ways_alone(host: RunningTestbed) -> list[Way]:
    """Return the ways without anything between."""
    return [Way(ALONE, Destination(protocol, host.addresses[protocol], MODELS)) for protocol in PROTOCOLS]


def ways_by_client(hosts: Sequence[RunningTestbed]) -> list[Way]:
    """Return the way of a client that knows all hosts. Over HTTP tritonclient knows only one."""
    url = "ipv4:" + ",".join(host.addresses["grpc"] for host in hosts)
    return [Way(CLIENT_SIDE, Destination("grpc", url, MODELS, round_robin=True))]


def ways_by_haproxy(haproxy: RunningHaproxy) -> list[Way]:
    """Return the ways through HAProxy."""
    return [
        Way(HAPROXY, Destination(protocol, haproxy.addresses[protocol], MODELS), (haproxy.pid,))
        for protocol in PROTOCOLS
    ]


def ways_by_ray(addresses: Mapping[str, str]) -> list[Way]:
    """Return the ways through the ingress of Ray Serve, which has hosts of its own."""
    return [Way(RAY, Destination(protocol, addresses[protocol], MODELS)) for protocol in PROTOCOLS]
