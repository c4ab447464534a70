"""Service of a device process for operators."""

from __future__ import annotations

from collections import Counter

from nnhal.v1 import admin_pb2 as wire
from nnhal_devices.host.memory.device_memory import DeviceBuffer
from nnhal_devices.host.operating.memory_view import buffers_of, pools_of
from nnhal_devices.host.operating.work_view import cancel_work, fences_of, work_of
from nnhal_devices.host.runs.execution import Execution
from nnhal_devices.host.sessions.client_session import ClientSession, ClientSessions
from nnhal_devices.host.sessions.hosted_device import HostedDevice
from nnhal_hosting.logs import SHOWN, levels_from, show_logs
from nnhal_hosting.sessions import Ownership


class DeviceAdministration:
    """A device process, as its AdminService sees it."""

    def __init__(self, device: HostedDevice, clients: ClientSessions) -> None:
        self._device = device
        self._clients = clients

    @property
    def kind(self) -> str:
        """``device``."""
        return "device"

    @property
    def name(self) -> str:
        """The driver's name."""
        return self._device.driver.name

    @property
    def sessions(self) -> ClientSessions:
        """The open sessions."""
        return self._clients

    @property
    def draining(self) -> bool:
        """Return whether it takes no new work."""
        return self._device.scheduler.draining

    def objects_of(self, owner: Ownership) -> list[wire.ObjectCount]:
        """Count what a session owns, by kind, with the bytes of its own that the device holds for it."""
        assert isinstance(owner, ClientSession)
        counts, held = Counter[str](), Counter[str]()
        for item in owner.all(object):
            kind: str = getattr(item, "kind", "object")  # of a wrapped one, that of its class
            counts[kind] += 1
            held[kind] += _bytes_of(item)
        counts["run channel"] = owner.run_channels
        counts["launch"] = len(owner.launched)
        return [
            wire.ObjectCount(kind=kind, count=count, bytes=held[kind])
            for kind, count in sorted(counts.items())
            if count > 0
        ]

    def fill(self, response: wire.GetProcessResponse, session: str | None, brief: bool) -> None:
        """Add executions and, unless it is ``brief``, pools, buffers and fences."""
        clients = [client for client in self._clients.all() if session in (None, client.session.id)]
        work = work_of(self._device.scheduler, clients, session)
        response.executions.extend(each.state for each in work)
        if brief:
            return
        response.pools.extend(pools_of(clients, [each.execution for each in work]))
        response.buffers.extend(buffers_of(clients))
        response.fences.extend(fences_of(clients))

    def cancel(self, execution: str, session: str | None) -> bool:
        """Cancel an execution by its public id; return whether it has ended. Raises as ``cancel_work`` does."""
        return cancel_work(self._device.scheduler, self._clients.all(), execution, session)

    def drain(self, drain: bool) -> int:
        """Take no new work, or take work again; return how many executions run or wait."""
        self._device.scheduler.drain(drain)
        return len(work_of(self._device.scheduler, self._clients.all(), None))

    def set_log_level(self, level: str) -> None:
        show_logs(levels_from(level), SHOWN.whole_seconds)


def _bytes_of(item: object) -> int:
    if isinstance(item, DeviceBuffer):
        return item.contents.bytes
    if isinstance(item, Execution):
        return sum(len(argument.data) for argument in item.staged)
    return 0
