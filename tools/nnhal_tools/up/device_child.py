"""The process of a device of a topology."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnhal.endpoint import Endpoint
from nnhal_hosting.foreign_child import ForeignChild
from nnhal_hosting.supervision import HANG_SECONDS, Child
from nnhal_hosting.zygote import Zygote
from nnhal_tools.up.topology import DeviceEntry


def device_child(
    entry: DeviceEntry,
    endpoint: Endpoint,
    options: Sequence[str] = (),
    admin_key: str = "",
    heard: Callable[[str], None] | None = None,
    zygote: Zygote | None = None,
    hang_seconds: float = HANG_SECONDS,
) -> Child:
    """Start a device, which is not one that runs already. ``options`` are words for the process of a driver of ours.

    Raises OSError and ValueError as ``Child`` and ``ForeignChild`` do.
    """
    if entry.command:
        return ForeignChild(entry.command, entry.title, endpoint, admin_key, heard, hang_seconds)
    words = [entry.driver, "--endpoint", str(endpoint.directory), "--workers", str(entry.workers)]
    words += ["--threads", str(entry.threads), *entry.driver_options, *options]
    return Child("nnhal_devices", words, admin_key=admin_key, heard=heard, zygote=zygote, hang_seconds=hang_seconds)
