"""What the connection is like: how long bytes take, and how the clocks differ."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal.clock import now_ns
from nnhal.types import TransferCosts
from nnhal.v1 import wire_pb2 as wire
from nnhal_devices.remote.clock_offset import ClockOffset
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.wire.protocol import CHUNK_BYTES

_PROBES = 10
_LARGE_PROBES = 4
_LEAST_NS_PER_BYTE = 1e-3


@dataclass(frozen=True, slots=True)
class WireMeasures:
    """What was measured when the driver connected."""

    round_trip_ns: int
    """The shortest time of a call without bytes."""
    ns_per_byte: float
    """How much longer a call takes for each byte, in the slower direction."""

    def costs(self, launch_ns: float) -> TransferCosts:
        """The costs of runs. ``launch_ns`` is what a run costs on the device's own host."""
        hop_ns = self.round_trip_ns + launch_ns
        return TransferCosts(hop_ns, 0.0, 0.0, self.ns_per_byte, True, self.round_trip_ns)


def measure(connection: WireConnection, offset: ClockOffset) -> WireMeasures:
    """Measure, which takes some dozen round trips and megabytes, and tell ``offset`` of the clocks. Raises HalError."""
    empty = min(_probe(connection, offset) for _ in range(_PROBES))
    sent = min(_probe(connection, offset, sent=CHUNK_BYTES) for _ in range(_LARGE_PROBES))
    received = min(_probe(connection, offset, received=CHUNK_BYTES) for _ in range(_LARGE_PROBES))
    per_byte = (max(sent, received) - empty) / CHUNK_BYTES
    return WireMeasures(empty, max(per_byte, _LEAST_NS_PER_BYTE))


def _probe(connection: WireConnection, offset: ClockOffset, sent: int = 0, received: int = 0) -> int:
    request = wire.ProbeRequest(payload=bytes(sent), answer_bytes=received)
    began = now_ns()
    answer = connection.call(connection.stub.Probe, request)
    ended = now_ns()
    offset.add(began, answer.received_ns, answer.sent_ns, ended)
    return ended - began
