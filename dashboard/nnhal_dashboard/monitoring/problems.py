"""Problems of a moment, and where to look: what has one cause is one problem, with what follows from it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote, urlencode

from nnhal.v1.framework_admin_pb2 import ServedModelState
from nnhal_dashboard.monitoring.states import ASKED_FOR, hang_words, state_of, wait_words
from nnhal_pages.operating.snapshot import Complaint, ObservedProcess, Severity, Snapshot
from nnhal_pages.operating.table import count_of

_RECENT_NS = 60 * 10**9
"""For how long requests that failed over are shown."""
_RESTARTS = 3
"""A process that was started again so often deserves a look."""
_NAMED = 3
"""So many models are named; of more, the others are counted."""
Found = tuple[Complaint, Sequence[str]]
"""A problem, and the devices that may be its cause."""


def problems_of(snapshot: Snapshot, slow: Sequence[Found] = ()) -> tuple[Complaint, ...]:
    """List the problems, the worst first: of a device that is not used, one with all that follows from it.

    ``slow`` are those that only the time before tells.
    """
    following = {process.name: [*_failed_over(process.name, snapshot)] for process in snapshot.devices}
    found: list[Complaint] = []
    for complaint, causes in (*_of_framework(snapshot), *slow):
        cause = next((name for name in causes if _is_away(name, snapshot)), None)
        (found if cause is None else following[cause]).append(complaint)
    if snapshot.supervisor is None and not snapshot.processes:
        found.append(Complaint(Severity.ERROR, "No supervisor and no framework answers: is nnhal up?", "/"))
    for process in snapshot.processes:
        own = [*_of_process(process, snapshot)]
        if _is_away(process.name, snapshot):
            own[0] = replace(own[0], consequences=(*following[process.name], *own[1:]))
            del own[1:]
        found += own
    return tuple(sorted(found, key=lambda problem: -problem.severity))


def _is_away(name: str, snapshot: Snapshot) -> bool:
    """Return whether a device of this name is not used, which a problem of its process says."""
    process = snapshot.find(name)
    is_device = process is not None and process.kind == "device"
    return process is not None and is_device and (process.is_dead or state_of(process, snapshot) in ASKED_FOR)


def _failed_over(device: str, snapshot: Snapshot) -> Iterator[Complaint]:
    """Requests that ended on another device than this one, since it failed them."""
    since = snapshot.at_ns - _RECENT_NS
    models = Counter(
        run.model for run in snapshot.finished if run.fell_back and run.ended_ns >= since and device in run.devices
    )
    for model, count in models.most_common():
        text = f"{count_of(count, 'request')} of {model} failed over to another device"
        yield Complaint(Severity.WARNING, text, f"/runs?{urlencode({'model': model, 'errors': 'yes'})}")


def _of_process(process: ObservedProcess, snapshot: Snapshot) -> Iterator[Complaint]:
    state, supervised, page = state_of(process, snapshot), process.supervised, process.page
    if state in ("down", "silent"):
        yield Complaint(Severity.ERROR, f"{process.name} is {state}: {process.silence}", page)
    elif state == "restarting":
        end = supervised.last_end if supervised is not None else ""
        yield Complaint(Severity.ERROR, f"{process.name} has died and is being started again: {end}", page)
    elif state == "starting":
        yield Complaint(Severity.WARNING, f"{process.name} is starting and does not serve yet", page)
    elif state in ASKED_FOR:
        yield Complaint(Severity.WARNING, f"{process.name} is {state}, as was asked: it takes no new work", page)
    if supervised is not None and supervised.restarts >= _RESTARTS:
        text = f"{process.name} was started again {supervised.restarts} times; last: {supervised.last_end}"
        yield Complaint(Severity.WARNING, text, page)


def _of_framework(snapshot: Snapshot) -> Iterator[Found]:
    """List the problems that the framework reports."""
    framework = snapshot.framework
    if framework is None:
        return
    if framework.addresses and not framework.ready:
        text = "The server is not ready: a model that it was to load has failed"
        yield Complaint(Severity.ERROR, text, "/models"), ()
    shown = {process.name for process in snapshot.processes if process.state != "up"}
    known = {process.name for process in snapshot.processes}
    for device in framework.devices:
        page = "/devices/" + quote(device.name, safe="")
        # A framework may know a device from its start which has left the testbed since then.
        has_left = snapshot.supervisor is not None and device.name not in known
        if not device.available and device.name not in shown and not has_left:
            yield Complaint(Severity.ERROR, f"The framework does not use {device.name}: {device.reason}", page), ()
        for words in hang_words(device.name, snapshot):
            yield Complaint(Severity.WARNING, words, page), (device.name,)
    for model in framework.models:
        page = "/models/" + quote(model.name, safe="")
        if model.state == "UNAVAILABLE" and model.reason not in ("", "unloaded", "not loaded"):
            text = f"Model {model.name} {model.version} does not serve: {model.reason}"
            yield Complaint(Severity.ERROR, text, page), ()
        elif model.reason and model.state == "READY":
            text = f"A newer version of {model.name} failed to load: {model.reason}"
            yield Complaint(Severity.WARNING, text, page), ()
        waits = wait_words(model, snapshot)
        if waits:
            yield Complaint(Severity.WARNING, f"Model {model.name} {model.version}: the {waits}", page), model.devices
    yield from _of_other_plans(framework.models, snapshot)


def _of_other_plans(models: Sequence[ServedModelState], snapshot: Snapshot) -> Iterator[Found]:
    """Say which models run by another plan than their own, once for each device that they run without."""
    without: dict[str, list[str]] = defaultdict(list)
    for model in models:
        if model.missing:
            cause = next((name for name in model.missing if _is_away(name, snapshot)), ", ".join(model.missing))
            without[cause].append(model.name)
    for cause, names in without.items():
        several = f"{len(names)} models run by other plans"
        what = f"Model {names[0]} runs by another plan" if len(names) == 1 else several
        why = "" if _is_away(cause, snapshot) else f": {cause} is missing"
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        named = f": {', '.join(names[:_NAMED])}{more}" if len(names) > 1 else ""
        page = "/models/" + quote(names[0], safe="") if len(names) == 1 else "/models"
        yield Complaint(Severity.WARNING, f"{what}{why}{named}", page), (cause,)
