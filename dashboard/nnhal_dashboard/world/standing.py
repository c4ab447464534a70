"""How devices fare with the framework."""

from __future__ import annotations

from nnhal.v1 import framework_admin_pb2
from nnhal_dashboard.world.snapshot import ObservedProcess, Snapshot


def standing_of(snapshot: Snapshot, device: str) -> framework_admin_pb2.DeviceStanding | None:
    """Return how a device fares with the framework; None if the framework does not know it, or is not known."""
    framework = snapshot.framework
    known = framework.devices if framework is not None else ()
    return next((standing for standing in known if standing.name == device), None)


def state_of(process: ObservedProcess, snapshot: Snapshot) -> str:
    """Return the state of a process in one word, and ``draining`` for a device that the framework leaves alone."""
    standing = standing_of(snapshot, process.name) if process.kind == "device" else None
    return "draining" if process.state == "up" and standing is not None and standing.draining else process.state
