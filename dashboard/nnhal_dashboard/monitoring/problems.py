"""Problems of a moment, and where to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from nnhal_dashboard.monitoring.states import hang_words, wait_words
from nnhal_pages.operating.snapshot import Complaint, ObservedProcess, Severity, Snapshot

_RECENT_NS = 60 * 10**9
"""For how long requests that failed over are told of."""
_RESTARTS = 3
"""A process that was started again so often deserves a look."""


def problems_of(snapshot: Snapshot) -> tuple[Complaint, ...]:
    """List the problems, the worst first: of a device that does not work, one with all that follows from it."""
    following = {process.name: [*_failed_over(process.name, snapshot)] for process in snapshot.devices}
    found: list[Complaint] = []
    for complaint, causes in _of_framework(snapshot):
        cause = next((name for name in causes if _is_dead(name, snapshot)), None)
        (found if cause is None else following[cause]).append(complaint)
    if snapshot.supervisor is None and not snapshot.processes:
        found.append(Complaint(Severity.ERROR, "No supervisor and no framework answers: is nnhal up?", "/"))
    for process in snapshot.processes:
        own = [*_of_process(process)]
        if _is_dead(process.name, snapshot):
            own[0] = replace(own[0], consequences=(*following[process.name], *own[1:]))
            del own[1:]
        found += own
    return tuple(sorted(found, key=lambda problem: -problem.severity))


def _is_dead(name: str, snapshot: Snapshot) -> bool:
    """Return whether a device of this name does not work, which a problem of its process says."""
    process = snapshot.find(name)
    return process is not None and process.kind == "device" and process.is_dead


def _failed_over(device: str, snapshot: Snapshot) -> Iterator[Complaint]:
    """Requests that ended on another device than this one, since it failed them."""
    since = snapshot.at_ns - _RECENT_NS
    models = Counter(
        run.model for run in snapshot.finished if run.fell_back and run.ended_ns >= since and device in run.devices
    )
    for model, count in models.most_common():
        text = f"{count} request{'s' if count > 1 else ''} of {model} failed over to another device"
        yield Complaint(Severity.WARNING, text, f"/runs?{urlencode({'model': model, 'errors': 'yes'})}")


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


def _of_framework(snapshot: Snapshot) -> Iterator[tuple[Complaint, Sequence[str]]]:
    """List the problems that the framework reports, each with the devices that may be the cause."""
    framework = snapshot.framework
    if framework is None:
        return
    if framework.addresses and not framework.ready:
        yield (
            Complaint(Severity.ERROR, "The server is not ready: a model that it was to load has failed", "/models"),
            (),
        )
    shown = {process.name for process in snapshot.processes if process.state != "up"}
    known = {process.name for process in snapshot.processes}
    for device in framework.devices:
        # A framework may know a device from its start which has left the testbed since then.
        has_left = snapshot.supervisor is not None and device.name not in known
        if not device.available and device.name not in shown and not has_left:
            text = f"The framework does not use {device.name}: {device.reason}"
            yield Complaint(Severity.ERROR, text, "/devices/" + quote(device.name, safe="")), ()
        for words in hang_words(device.name, snapshot):
            yield Complaint(Severity.WARNING, words, "/devices/" + quote(device.name, safe="")), (device.name,)
    for model in framework.models:
        page = "/models/" + quote(model.name, safe="")
        if model.state == "UNAVAILABLE" and model.reason not in ("", "unloaded", "not loaded"):
            yield (
                Complaint(Severity.ERROR, f"Model {model.name} {model.version} does not serve: {model.reason}", page),
                (),
            )
        elif model.reason and model.state == "READY":
            yield (
                Complaint(Severity.WARNING, f"A newer version of {model.name} failed to load: {model.reason}", page),
                (),
            )
        waits = wait_words(model, snapshot)
        if waits:
            yield Complaint(Severity.WARNING, f"Model {model.name} {model.version}: the {waits}", page), model.devices
        if model.missing:
            devices = ", ".join(model.missing)
            yield (
                Complaint(Severity.WARNING, f"Model {model.name} runs by another plan: {devices} is missing", page),
                model.missing,
            )
