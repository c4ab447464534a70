"""Actions of the forms of these pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import Response

from nnhal_dashboard.pages.devices.commands import COMMANDS
from nnhal_dashboard.web.forms import OperatorForm, done
from nnhal_dashboard.web.request_state import collector_of

router = APIRouter()
_NAMES_FILE = re.compile(r".*(file|path|dir|directory|ca|certificate|key|memory)")
"""Names of options whose values are files of this host, such as ``token_file``, ``tls_ca`` and ethos_u's ``memory``."""

_SHIPPED = {("profile", "cn106")}
"""Options whose values are names of files that come with nnhal, before any file of this host is looked for."""


@router.post("/processes/{command}")
def act(request: Request, visitor: OperatorForm, command: str, process: Annotated[str, Form()]) -> Response:
    """Start, stop, restart, drain, kill or remove a process, or have it exit."""
    known = COMMANDS.get(command)
    if known is None:
        raise LookupError(f"nothing is called {command!r}; a process takes {', '.join(COMMANDS)}")
    collector = collector_of(request)
    snapshot = collector.snapshot
    found = snapshot.find(process)
    if found is None:
        raise LookupError(f"no process {process!r}")
    to = "/devices" if known.name == "remove" else found.page
    return done(request, visitor, lambda: known.act(collector.contacts, found, snapshot), f"{process} {known.done}", to)


@router.post("/devices/start")
def start_device(
    request: Request,
    visitor: OperatorForm,
    driver: Annotated[str, Form()],
    name: Annotated[str, Form()] = "",
    workers: Annotated[int, Form(ge=1, le=256)] = 1,
    threads: Annotated[int, Form(ge=1, le=256)] = 1,
    options: Annotated[str, Form()] = "",
) -> Response:
    """Start one more device."""

    def start() -> str:
        given = dict(_options(options))
        supervisor = collector_of(request).contacts.supervisor()
        process = supervisor.start_device(driver.strip(), name.strip(), workers, threads, given)
        return f"{process.name} serves."

    return done(request, visitor, start, "A device was started:", "/devices")


@router.post("/executions/cancel")
def cancel(
    request: Request,
    visitor: OperatorForm,
    process: Annotated[str, Form()],
    execution: Annotated[str, Form()],
    room: Annotated[str, Form()] = "",
) -> Response:
    """Cancel an execution of a process; ``room`` is ``runs`` if that was asked for on the page of runs."""
    collector = collector_of(request)
    found = collector.snapshot.find(process)
    if found is None:
        raise LookupError(f"no process {process!r}")

    def end() -> str:
        has_ended = collector.contacts.process(process).cancel_execution(execution)
        return "It has ended." if has_ended else "It has begun, and ends as soon as what executes it can stop."

    return done(
        request, visitor, end, f"Execution {execution} was cancelled.", "/runs" if room == "runs" else found.page
    )


def _options(text: str) -> Iterator[tuple[str, str]]:
    """Read options, a line each. Raises ValueError, also if one names a file, which is for the topology file to say."""
    for line in text.split("\n"):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"option {line.strip()!r}, expected NAME=VALUE")
        names_file = _NAMES_FILE.fullmatch(name.strip()) and (name.strip(), value.strip()) not in _SHIPPED
        if names_file or "/" in value.replace("tcp://", "", 1):
            raise ValueError(
                f"option {name.strip()!r} names a file, expected none here: "
                "a topology file or 'nnhal ctl start' takes it"
            )
        yield name.strip(), value.strip()
