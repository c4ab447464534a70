"""What is done to the testbed. Each act ends when all has come back and each model answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from nnhal_tools.drill.site import FAR, LOCAL, DrillSite
from nnhal_tools.drill.traffic import DrillTraffic
from nnhal_tools.up.topology import FRAMEWORK

_BETWEEN = 10
"""Answers of each model between two steps of an act."""


def _kill(site: DrillSite, traffic: DrillTraffic) -> None:
    """Send each device SIGKILL, one after the other."""
    for name in site.models:
        pid = site.supervisor.kill(name, signal.SIGKILL)
        traffic.wait(_BETWEEN)
        site.await_other(name, pid)
        traffic.wait(_BETWEEN)


def _hang(site: DrillSite, traffic: DrillTraffic) -> None:
    """Have each local device stand still in the midst of runs until its model answers without it."""
    for name in LOCAL:
        pid = site.process(name).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            traffic.wait(_BETWEEN)
        finally:
            os.kill(pid, signal.SIGCONT)
        traffic.wait(_BETWEEN)


def _partition(site: DrillSite, traffic: DrillTraffic) -> None:
    """Cut the wire to the far device until its model answers without it."""
    site.wire.cut()
    try:
        traffic.wait(_BETWEEN)
    finally:
        site.wire.mend()
    traffic.wait(_BETWEEN)


def _update(site: DrillSite, traffic: DrillTraffic) -> None:
    """Start each process again when its work has ended: the devices first, then the framework."""
    for name in (*LOCAL, FAR, FRAMEWORK):
        site.supervisor.restart(name, drain=True)
        traffic.wait(_BETWEEN)


ACTS: Mapping[str, Callable[[DrillSite, DrillTraffic], None]] = {
    "kill": _kill,
    "hang": _hang,
    "partition": _partition,
    "update": _update,
}
"""By the names that the command takes."""
