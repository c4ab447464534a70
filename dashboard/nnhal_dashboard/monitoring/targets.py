"""Processes to observe: what the supervisor, the framework and the settings say, and what is found."""

from __future__ import annotations

from collections.abc import Sequence, Set
from pathlib import Path

from nnhal.endpoint import endpoints_below
from nnhal.v1 import framework_admin_pb2, supervisor_pb2
from nnhal_dashboard.settings import DashboardSettings
from nnhal_pages.operating.snapshot import ObservedProcess

FRAMEWORK = "framework"


def targets_of(
    settings: DashboardSettings,
    supervisor: supervisor_pb2.ListProcessesResponse | None,
    framework: framework_admin_pb2.GetFrameworkResponse | None,
) -> list[ObservedProcess]:
    """List devices first, in order of preference, then the framework, then others."""
    supervised = [ObservedProcess(p.name, p.kind, p.directory, p) for p in (supervisor.processes if supervisor else ())]
    known = {target.name for target in supervised}
    others: list[ObservedProcess] = []
    # A supervised framework has supervised devices only, and its last answer may name one that has just been removed.
    if framework is not None and FRAMEWORK not in known:
        others += [ObservedProcess(device.name, "device", device.directory) for device in framework.devices]
    others += [ObservedProcess(name, "device", str(directory)) for name, directory in settings.device]
    if settings.framework is not None:
        others.append(ObservedProcess(FRAMEWORK, FRAMEWORK, str(settings.framework)))
    if supervisor is None:
        others += _found(settings.directory, {target.directory for target in others})
    for target in others:
        if target.name not in known:
            known.add(target.name)
            supervised.append(target)
    return sorted(supervised, key=_place)


def _found(directory: Path, named: Set[str]) -> list[ObservedProcess]:
    """Return unknown processes below a directory that nobody supervises, as ``nnhal ps`` finds them."""
    try:
        endpoints = endpoints_below(directory.absolute())
    except OSError:  # it may not be looked into, or has just gone
        return []
    return [
        ObservedProcess(endpoint.directory.name, endpoint.service, str(endpoint.directory))
        for endpoint in endpoints
        if str(endpoint.directory) not in named
    ]


def _place(target: ObservedProcess) -> int:
    """Sorting keeps the order within a kind."""
    kinds: Sequence[str] = ("device", FRAMEWORK)
    return kinds.index(target.kind) if target.kind in kinds else len(kinds)
