"""The states of devices and models in the framework."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from datetime import UTC, datetime

from nnhal.quantiles import quantile
from nnhal.v1 import framework_admin_pb2
from nnhal_pages.operating.snapshot import ObservedProcess, Snapshot

_LONG_NS = 2 * 10**9
_RECENT_SECONDS = 600
"""The time for which a hang that is over is shown."""
_LONG_TIMES = 10
"""A request waits for too long if it exceeds both: 2 s, and so many times what 99 % of the model's requests take."""


ASKED_FOR = frozenset({"draining", "drained", "stopped"})
"""The states of a process that an operator has asked for."""


def state_of(process: ObservedProcess, snapshot: Snapshot) -> str:
    """Return the state of a process in one word, and ``draining`` for a device that the framework leaves alone."""
    standing = snapshot.standing(process.name) if process.kind == "device" else None
    return "draining" if process.state == "up" and standing is not None and standing.draining else process.state


def shown_at_work(process: ObservedProcess, at_work: Container[str]) -> ObservedProcess:
    """Return a process that has run executions just now as one that answers: it is too busy for questions."""
    if process.state != "silent" or process.name not in at_work:
        return process
    return replace(process, silence="", lack=f"it is busy: {process.silence}")


def absence_words(devices: Iterable[str], snapshot: Snapshot) -> str:
    """Say of devices that a model runs without whether that was asked for, or they are missing."""
    found = [(name, snapshot.find(name)) for name in devices]
    asked = [name for name, process in found if process is not None and state_of(process, snapshot) in ASKED_FOR]
    return ", ".join(f"{name} {'drains, as was asked' if name in asked else 'is missing'}" for name, _ in found)


def requests_wait(model: framework_admin_pb2.ServedModelState) -> bool:
    """Return whether the oldest request of a model has waited or run for much longer than its requests take."""
    usual = quantile(model.counts.durations, 0.99) or 0.0
    return model.oldest_request_ns > max(_LONG_NS, _LONG_TIMES * usual)


def wait_words(model: framework_admin_pb2.ServedModelState, snapshot: Snapshot) -> str:
    """Say how long the oldest request of a model waits and for which device; empty if it does not wait for too long."""
    if not requests_wait(model):
        return ""
    usual = quantile(model.counts.durations, 0.99)
    than = f", while 99 % take at most {usual / 1e6:.3g} ms" if usual is not None else ""
    text = f"oldest request waits {model.oldest_request_ns / 1e9:.0f} s{than}"
    troubles = [f"{name}: {trouble}" for name in model.devices if (trouble := _trouble_of(name, snapshot))]
    if troubles:
        return "; ".join([text, *troubles])
    awaited = [name for name in model.devices if (each := snapshot.standing(name)) and each.awaited_ns]
    return (
        f"{text}; it waits for {' or '.join(awaited)}" if awaited else f"{text}; it runs on {', '.join(model.devices)}"
    )


def hang_words(device: str, snapshot: Snapshot) -> tuple[str, ...]:
    """Say whether a run waits for a device that is silent, and what was done of late about one that hung."""
    hangs = []
    standing, process = snapshot.standing(device), snapshot.find(device)
    if standing is not None and standing.silent_ns:
        hangs.append(
            f"a run has waited {standing.awaited_ns / 1e9:.1f} s and {device} has not answered for "
            f"{standing.silent_ns / 1e9:.1f} s: if it hangs it is killed, and the run goes on elsewhere"
        )
    done = [(event.at_ns, event.text) for event in snapshot.events if (event.kind, event.subject) == ("hung", device)]
    if process is not None and process.device is not None and process.device.last_hung:
        done.append((process.device.last_hung_ns, f"on {device}, {process.device.last_hung}"))
    at_ns, text = max(done, default=(0, ""))
    if text and at_ns > (snapshot.at - _RECENT_SECONDS) * 1e9:
        hangs.append(f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%H:%M:%S} UTC: {text}")
    return tuple(hangs)


def _trouble_of(device: str, snapshot: Snapshot) -> str:
    """Return why a device does not run what it was given; empty if nobody knows a reason."""
    standing, process = snapshot.standing(device), snapshot.find(device)
    if standing is not None and not standing.available:
        return standing.reason
    if standing is not None and standing.silent_ns:
        return f"it has not answered for {standing.silent_ns / 1e9:.1f} s"
    return process.silence if process is not None else ""
