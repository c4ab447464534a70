"""``nnhal device``, ``nnhal serve``, ``nnhal dashboard`` and ``nnhal up``."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import CompletionItem, TyperCommand  # type: ignore[attr-defined] # typer hands it on unnamed

from nnhal.threads import BriefThread
from nnhal_tools.cli.chosen_devices import DevicesOption, chosen_topology
from nnhal_tools.cli.completion import complete_option
from nnhal_tools.cli.programs import become
from nnhal_tools.cli.watched import main as watch
from nnhal_tools.health.command import main as check_health
from nnhal_tools.settings import DEFAULT_DIRECTORY


def device(context: typer.Context) -> None:
    """Serve one emulated accelerator: nnhal device NAME --endpoint DIR.

    nnhal device cpu_acc --endpoint /tmp/npu
    """
    become("device", context.args)


def serve(context: typer.Context) -> None:
    """Serve models over devices that run already: nnhal serve --endpoint DIR --device NAME=DIR…"""
    become("serve", context.args)


def dashboard(context: typer.Context) -> None:
    """Serve the pages for operators: nnhal dashboard --directory DIR."""
    become("dashboard", context.args)


def health(context: typer.Context) -> None:
    """Ask processes whether they serve, cheaply, for containers: nnhal health DIR, a socket, or a URL.

    nnhal health /run/nnhal/cpu_acc
    """
    raise typer.Exit(check_health(context.args))


def watched(context: typer.Context) -> None:
    """Run 'nnhal COMMAND' as the first process of a container, and end it if it hangs: nnhal watched COMMAND…"""
    raise typer.Exit(watch(context.args))


class _UpCommand(TyperCommand):
    """Takes the options of ``nnhal serve`` too, which the framework's own program tells from the others."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        own = {"--", "--help", *(name for parameter in self.params for name in parameter.opts)}
        if any(word.startswith("--") and word.partition("=")[0] not in own for word in args):
            ctx.obj, args = _framework_options(args)
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        own = super().shell_complete(ctx, incomplete)
        known = {item.value for item in own}
        others = complete_option("serve", incomplete) if incomplete.startswith("-") else []
        return [*own, *(CompletionItem(word) for word in others if word not in known)]


def _framework_options(words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The options of a topology's framework among these words, and the others. Ends the command if one is wrong."""
    command = [sys.executable, "-m", "nnhal_service.options", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        typer.echo(done.stderr, err=True, nl=False)
        raise typer.Exit(done.returncode)
    found = json.loads(done.stdout)
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in found["framework"].items()}
    return given, found["rest"]


def _address_option(what: str, port: int) -> Any:
    about = f"Where {what} is served, 127.0.0.1:{port} by default; port 0 for any that is free."
    return typer.Option(metavar="[HOST:]PORT", help=about, callback=_address)


def _address(text: str) -> str:
    """An address with its host, which is the loopback if none is given."""
    from nnhal_hosting.access import TcpListener

    full = text if ":" in text or not text else f"127.0.0.1:{text}"
    if full and TcpListener.parse(full) is None:
        raise typer.BadParameter(f"{text!r}: expected [HOST:]PORT, with port 0 for any that is free")
    return full


app = typer.Typer(add_completion=False)


@app.command(cls=_UpCommand)
def up(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[TOPOLOGY]", help="A topology file (TOML); cpu_acc and cpu_ref without one."),
    ] = None,
    topology: Annotated[Path | None, typer.Option(help="The same, by an option as other commands have it.")] = None,
    devices: DevicesOption = "",
    directory: Annotated[
        Path | None, typer.Option(help=f"Where the sockets go; {DEFAULT_DIRECTORY} by default.")
    ] = None,
    model_repository: Annotated[
        Path | None, typer.Option(help="A folder of models to serve over HTTP (port 8000) and gRPC (port 8001).")
    ] = None,
    http: Annotated[str, _address_option("the protocol over HTTP", 8000)] = "",
    grpc: Annotated[str, _address_option("the protocol over gRPC", 8001)] = "",
    metrics: Annotated[str, _address_option("what Prometheus reads", 8002)] = "",
    dashboard: Annotated[str, _address_option("the dashboard", 8003)] = "",
    dashboard_port: Annotated[int | None, typer.Option(help="The dashboard's port alone.", min=0)] = None,
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
    'nnhal ps' and the like, at DIRECTORY/supervisor. The framework takes its other options here as well, such as
    --allow-client-shm: 'nnhal serve --help' lists them. They come before what a topology says.

    nnhal up

    nnhal up --allow-faults
    """
    from nnhal_hosting.access import TcpListener
    from nnhal_hosting.logs import configure_logs
    from nnhal_hosting.supervision import Supervision
    from nnhal_hosting.threads import show_thread_names
    from nnhal_tools.settings import ClientSettings
    from nnhal_tools.up import Testbed
    from nnhal_tools.up.control import controlled
    from nnhal_tools.up.fault_options import FaultOptions

    if file and topology:
        raise ValueError(f"got the topology {file} and --topology {topology}, expected one of both")
    chosen = chosen_topology(devices, file or topology)
    if model_repository is not None:
        chosen = chosen.serving(model_repository.resolve())
    for protocol, address in (("http", http), ("grpc", grpc), ("metrics", metrics)):
        if listener := TcpListener.parse(address):
            chosen = chosen.framed({f"{protocol}_host": listener.host, f"{protocol}_port": listener.port})
    chosen = chosen.framed(context.obj or {})
    if listener := TcpListener.parse(dashboard):
        chosen = chosen.shown(listener.port, listener.host)
    chosen = chosen.hidden() if no_dashboard else chosen.shown(dashboard_port)
    fault_options = FaultOptions(allow_faults or faults is not None, faults)
    root = (directory or ClientSettings().directory).resolve()
    configure_logs("supervisor", "warning", as_json=False)
    show_thread_names()
    testbed = Testbed(chosen, root, _say, fault_options, allow_recording, hang_seconds=hang_secs)
    signal.signal(signal.SIGTERM, _interrupt)  # until all serve
    if supervisor is not None:
        BriefThread(partial(_end_with, supervisor), "supervisor").start()
    try:
        with controlled(testbed):
            supervision = Supervision(supervisor)
            supervision.ready()
            _say(f"ready: {testbed.framework}")
            supervision.wait()
            _say("stopping")
    except _EndedError:
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


class _EndedError(BaseException):
    """SIGTERM has come before all processes serve."""


def _interrupt(*_: object) -> None:
    raise _EndedError
