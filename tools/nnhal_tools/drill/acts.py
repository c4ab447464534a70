"""Acts on the testbed. Each act ends when all has come back and each model answers."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from nnhal_tools.drill.site import FAR, LOCAL, DrillSite
from nnhal_tools.drill.traffic import DrillTraffic
from nnhal_tools.up.topology import DASHBOARD, FRAMEWORK

_BETWEEN = 10
"""Answers of each model between two steps of an act."""
_MISDEEDS = 200
_BAD_SECONDS = 5.0
"""After which a client that misbehaves gives up."""


def _kill(site: DrillSite, traffic: DrillTraffic) -> None:
    """Send each device, the dashboard and the framework SIGKILL, one after the other."""
    for name in (*site.models, DASHBOARD, FRAMEWORK):
        pid = site.supervisor.kill(name, signal.SIGKILL)
        traffic.wait(_BETWEEN)
        site.await_other(name, pid)
        traffic.wait(_BETWEEN)


def _blackout(site: DrillSite, traffic: DrillTraffic) -> None:
    """Send all devices SIGKILL at one moment."""
    pids = {name: site.supervisor.kill(name, signal.SIGKILL) for name in site.models}
    for name, pid in pids.items():
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


def _abuse(site: DrillSite, traffic: DrillTraffic) -> None:
    """Send garbage, halves of requests and what no model takes, and leave before the answer."""
    body = b'{"inputs": [{"name": "image", "shape": [1, 1, 8, 8], "datatype": "FP32", "data": [0.5]}]}'
    head = f"POST /v2/models/{site.models[0]}/infer HTTP/1.1\r\nHost: nnhal\r\nContent-Length: ".encode()
    host, _, port = site.address.rpartition(":")
    for number in range(_MISDEEDS):
        whole = head + str(len(body)).encode() + b"\r\n\r\n" + body
        sent = (os.urandom(256), whole, whole[: number % len(whole)], head + b"99999999999\r\n\r\n")[number % 4]
        with suppress(OSError), socket.create_connection((host, int(port)), _BAD_SECONDS) as connection:
            connection.sendall(sent)
            if number % 8 < 4:
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
        if number % _BETWEEN == 0:
            traffic.wait(1)


def carry_out(act: str, site: DrillSite, traffic: DrillTraffic) -> None:
    """Do it, and wait until each model answers from its own device again. Raises NnhalError."""
    ACTS[act](site, traffic)
    site.await_whole()
    traffic.wait(_BETWEEN)


ACTS: Mapping[str, Callable[[DrillSite, DrillTraffic], None]] = {
    "kill": _kill,
    "blackout": _blackout,
    "hang": _hang,
    "host": _host,
    "partition": _partition,
    "update": _update,
    "abuse": _abuse,
}
"""By the names that the command takes."""
