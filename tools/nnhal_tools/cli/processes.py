"""``nnhal device``, ``nnhal serve``, ``nnhal dashboard`` and ``nnhal up``."""

from __future__ import annotations

import os
import select
import signal
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nnhal.threads import BriefThread
from nnhal_tools.cli.chosen_devices import DevicesOption, chosen_topology
from nnhal_tools.cli.programs import become
from nnhal_tools.cli.watched import main as watch
from nnhal_tools.health.command import main as check_health


def device(context: typer.Context) -> None:
    """Serve one emulated accelerator: nnhal device NAME --endpoint DIR."""
    become("device", context.args)


def serve(context: typer.Context) -> None:
    """Serve models over devices that run already: nnhal serve --endpoint DIR --device NAME=DIR…"""
    become("serve", context.args)


def dashboard(context: typer.Context) -> None:
    """Serve the pages for operators: nnhal dashboard --directory DIR."""
    become("dashboard", context.args)


def health(context: typer.Context) -> None:
    """Ask processes whether they serve, cheaply, for containers: nnhal health DIR, a socket, or a URL."""
    raise typer.Exit(check_health(context.args))


def watched(context: typer.Context) -> None:
    """Run 'nnhal COMMAND' as the first process of a container, and end it if it hangs: nnhal watched COMMAND…"""
    raise typer.Exit(watch(context.args))


def up(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[TOPOLOGY]", help="A topology file (TOML); cpu_acc and cpu_ref without one."),
    ] = None,
    topology: Annotated[Path | None, typer.Option(help="The same, by an option as other commands have it.")] = None,
    devices: DevicesOption = "",
    directory: Annotated[
        Path | None, typer.Option(help="Where the sockets go; NNHAL_DIRECTORY or /run/nnhal by default.")
    ] = None,
    model_repository: Annotated[
        Path | None, typer.Option(help="A folder of models to serve over HTTP (port 8000) and gRPC (port 8001).")
    ] = None,
    dashboard_port: Annotated[
        int | None, typer.Option(help="The port of the dashboard, 8003 by default; 0 for any that is free.", min=0)
    ] = None,
    allow_faults: Annotated[
        bool, typer.Option("--allow-faults", help="Let 'nnhal faults' tell the devices to misbehave.")
    ] = False,
    faults: Annotated[
        Path | None, typer.Option(help="A file of faults that the devices have from the start on.")
    ] = None,
    allow_recording: Annotated[
        bool, typer.Option("--allow-recording", help="Let 'nnhal record' record what is asked of the devices.")
    ] = False,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Start no dashboard.")] = False,
    hang_secs: Annotated[
        float,
        typer.Option(help="A process that gives no sign of life for so many seconds is killed; 0 for none.", min=0),
    ] = 60.0,
    supervisor: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Start devices, a framework and a dashboard, watch over them, and stop them all on SIGINT or SIGTERM.

    A process that dies or hangs is started again. The framework is reached at DIRECTORY/framework, the supervisor, for
    'nnhal ps' and the like, at DIRECTORY/supervisor.
    """
    from nnhal_hosting.logs import configure_logs
    from nnhal_hosting.supervision import Supervision
    from nnhal_hosting.threads import show_thread_names
    from nnhal_tools.settings import ClientSettings
    from nnhal_tools.up import Testbed
    from nnhal_tools.up.control import controlled
    from nnhal_tools.up.misbehaviour import Misbehaviour

    if file and topology:
        raise ValueError(f"got the topology {file} and --topology {topology}, expected one of both")
    chosen = chosen_topology(devices, file or topology)
    if model_repository is not None:
        chosen = chosen.serving(model_repository.resolve())
    chosen = chosen.hidden() if no_dashboard else chosen.shown(dashboard_port)
    misbehaviour = Misbehaviour(allow_faults or faults is not None, faults)
    root = (directory or ClientSettings().directory).resolve()
    configure_logs("supervisor", "warning", as_json=False)
    show_thread_names()
    testbed = Testbed(chosen, root, _say, misbehaviour, allow_recording, hang_seconds=hang_secs)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)  # until all serve
    if supervisor is not None:
        BriefThread(partial(_end_with, supervisor), "supervisor").start()
    try:
        with controlled(testbed):
            supervision = Supervision(supervisor)
            supervision.ready()
            _say(f"ready: {testbed.framework}")
            supervision.wait()
            _say("stopping")
    except KeyboardInterrupt:
        _say("stopped before all processes served")
        raise typer.Exit(1) from None


def _say(line: str) -> None:
    """Print a line, whether anybody reads it or not."""
    from nnhal_hosting.nonblocking_stderr import STDERR

    STDERR.write(f"{line}\n")


def _end_with(supervisor: int) -> None:
    """Interrupt this process if its supervisor ends, which may be before all serve."""
    watched = select.poll()
    watched.register(supervisor, 0)  # that the other end has closed is told without being asked for
    watched.poll()
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
