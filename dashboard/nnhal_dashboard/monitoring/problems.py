"""What is wrong at a moment, and where to look."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from nnhal_dashboard.monitoring.snapshot import Complaint, ObservedProcess, Severity, Snapshot
from nnhal_dashboard.monitoring.standing import hang_words, wait_words

_RESTARTS = 3
"""A process that was started again so often deserves a look."""


def problems_of(snapshot: Snapshot) -> tuple[Complaint, ...]:
    """List the problems, the worst first."""
    found = [*_of_processes(snapshot), *_of_framework(snapshot)]
    return tuple(sorted(found, key=lambda problem: -problem.severity))


def _of_processes(snapshot: Snapshot) -> Iterator[Complaint]:
    if snapshot.supervisor is None and not snapshot.processes:
        yield Complaint(Severity.ERROR, "No supervisor and no framework answers: is nnhal up?", "/")
    for process in snapshot.processes:
        yield from _of_process(process)


def _of_process(process: ObservedProcess) -> Iterator[Complaint]:
    state, supervised, page = process.state, process.supervised, process.page
    if state in ("down", "silent"):
        yield Complaint(Severity.ERROR, f"{process.name} is {state}: {process.silence}", page)
    elif state == "restarting":
        end = supervised.last_end if supervised is not None else ""
        yield Complaint(Severity.ERROR, f"{process.name} has died and is being started again: {end}", page)
    elif state == "starting":
        yield Complaint(Severity.WARNING, f"{process.name} is starting and does not serve yet", page)
    elif state in ("draining", "drained", "stopped"):
        yield Complaint(Severity.WARNING, f"{process.name} is {state}: it takes no new work", page)
    if supervised is not None and supervised.restarts >= _RESTARTS:
        text = f"{process.name} was started again {supervised.restarts} times; last: {supervised.last_end}"
        yield Complaint(Severity.WARNING, text, page)


def _of_framework(snapshot: Snapshot) -> Iterator[Complaint]:
    framework = snapshot.framework
    if framework is None:
        return
    if framework.addresses and not framework.ready:
        yield Complaint(Severity.ERROR, "The server is not ready: a model that it was to load has failed", "/models")
    shown = {process.name for process in snapshot.processes if process.state != "up"}
    known = {process.name for process in snapshot.processes}
    for device in framework.devices:
        # A framework may know a device from its start which has left the testbed since then.
        has_left = snapshot.supervisor is not None and device.name not in known
        if not device.available and device.name not in shown and not has_left:
            text = f"The framework does not use {device.name}: {device.reason}"
            yield Complaint(Severity.ERROR, text, "/devices/" + quote(device.name, safe=""))
        for words in hang_words(device.name, snapshot):
            yield Complaint(Severity.WARNING, words, "/devices/" + quote(device.name, safe=""))
    for model in framework.models:
        page = "/models/" + quote(model.name, safe="")
        if model.state == "UNAVAILABLE" and model.reason not in ("", "unloaded", "not loaded"):
            yield Complaint(Severity.ERROR, f"Model {model.name} {model.version} does not serve: {model.reason}", page)
        elif model.reason and model.state == "READY":
            yield Complaint(Severity.WARNING, f"A newer version of {model.name} failed to load: {model.reason}", page)
        waits = wait_words(model, snapshot)
        if waits:
            yield Complaint(Severity.WARNING, f"Model {model.name} {model.version}: the {waits}", page)
        if model.missing:
            devices = ", ".join(model.missing)
            yield Complaint(Severity.WARNING, f"Model {model.name} runs by another plan: {devices} is missing", page)
