"""What all workloads of the driver share."""

from __future__ import annotations

from dataclasses import dataclass

from nnhal_devices.remote.clock_offset import ClockOffset
from nnhal_devices.remote.connection import WireConnection
from nnhal_devices.remote.kept_memory import KeptMemory
from nnhal_devices.remote.releases import Releases, RunsUnderWay


@dataclass(frozen=True, slots=True)
class WireParts:
    """What all workloads of the driver share."""

    connection: WireConnection
    releases: Releases
    runs: RunsUnderWay
    kept: KeptMemory
    offset: ClockOffset
