"""What is done to the testbed. Each act ends when all has come back and each model answers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping

from nnhal_tools.drill.site import FAR, LOCAL, DrillSite
from nnhal_tools.drill.traffic import DrillTraffic
from nnhal_tools.up.topology import DASHBOARD, FRAMEWORK

_BETWEEN = 10
"""Answers of each model between two steps of an act."""


def _kill(site: DrillSite, traffic: DrillTraffic) -> None:
    """Send each device, the dashboard and the framework SIGKILL, one after the other."""
    for name in (*site.models, DASHBOARD, FRAMEWORK):
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


def _host(site: DrillSite, traffic: DrillTraffic) -> None:
    """Stop the process at the other end of the wire until its model answers without it, then kill it."""
    pid = site.far_host.child.pid
    os.kill(pid, signal.SIGSTOP)
    traffic.wait(_BETWEEN)
    os.kill(pid, signal.SIGKILL)
    traffic.wait(_BETWEEN)
    site.await_other_far(pid)
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
    """Start each process again when its work has ended: the devices first, then the framework, then the dashboard."""
    for name in (*LOCAL, FAR, FRAMEWORK, DASHBOARD):
        site.supervisor.restart(name, drain=name != DASHBOARD)
        traffic.wait(_BETWEEN)


def carry_out(act: str, site: DrillSite, traffic: DrillTraffic) -> None:
    """Do it, and wait until each model answers from its own device again. Raises NnhalError."""
    ACTS[act](site, traffic)
    site.await_whole()
    traffic.wait(_BETWEEN)


ACTS: Mapping[str, Callable[[DrillSite, DrillTraffic], None]] = {
    "kill": _kill,
    "hang": _hang,
    "host": _host,
    "partition": _partition,
    "update": _update,
}
"""By the names that the command takes."""
