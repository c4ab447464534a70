"""``nnhal start``, ``nnhal stop``, ``nnhal restart`` and ``nnhal drain``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from nnhal.v1 import supervisor_pb2
from nnhal_tools.cli.completion import complete_driver, complete_process
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, say
from nnhal_tools.operate.operator_session import OperatorError, OperatorSession
from nnhal_tools.operate.plain import plain

_LOOK_SECONDS = 0.1
_DRAIN_SECONDS = 10.0
NameArgument = Annotated[
    str, typer.Argument(help="A process, by its name in 'nnhal ps'.", autocompletion=complete_process)
]
SecondsOption = Annotated[float, typer.Option(help="How long to wait until it is idle.", min=0.1, max=3600)]


def start(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME | -- COMMAND…]",
            help="A process that was stopped or drained; or a command that serves the new device --name.",
            autocompletion=complete_process,
        ),
    ] = None,
    driver: Annotated[
        str, typer.Option(help="Start one more device with this driver.", autocompletion=complete_driver)
    ] = "",
    called: Annotated[
        str, typer.Option("--name", help="The name of the new device; the driver's name by default.")
    ] = "",
    workers: Annotated[int, typer.Option(help="Executions that it runs at a time.", min=1)] = 1,
    threads: Annotated[int, typer.Option(help="Threads of one execution.", min=1)] = 1,
    option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of its driver; may be repeated.")
    ] = None,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Start a process that was stopped, let one that was drained take work again, or start one more device.

    In COMMAND, {endpoint} stands for the directory in which the device is to serve.
    """
    given = words or []
    if bool(given) == bool(driver) or (len(given) > 1 and not called):
        raise ValueError("expected NAME, or --driver DRIVER or --name NAME -- COMMAND for one more device")
    with operator_at(directory, admin_key) as operator:
        if driver:
            options = dict(_option(text) for text in option or [])
            process = operator.supervisor.start_device(driver, called, workers, threads, options)
            _say_serves(process, as_json)
        elif called:
            _say_serves(operator.supervisor.start_device(name=called, command=_runnable(given)), as_json)
        elif operator.is_supervised:
            _say_serves(operator.supervisor.start(given[0]), as_json)
        else:
            _open_foreign(operator, given[0])
            say(f"{given[0]} takes work again", as_json, name=given[0])


def stop(
    name: NameArgument,
    drain: Annotated[bool, typer.Option("--drain", help="Let its work end first.")] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Also forget a device that 'nnhal start' has added.")
    ] = False,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a process until 'nnhal start NAME'."""
    with operator_at(directory, admin_key) as operator:
        if not operator.is_supervised:
            raise operator.refuse_foreign(name, "stopped")
        if remove:
            if drain:
                _require_idle(name, operator.supervisor.drain(name))
            operator.supervisor.remove_device(name)
        else:
            operator.supervisor.stop(name, drain)
    say(f"{name} is {'removed' if remove else 'stopped'}", as_json, name=name, removed=remove)


def restart(
    name: NameArgument,
    drain: Annotated[bool, typer.Option("--drain", help="Let its work end first.")] = False,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Stop a process and start it again. Under systemd or in a container it exits, and is started by those."""
    with operator_at(directory, admin_key) as operator:
        if operator.is_supervised:
            _say_serves(operator.supervisor.restart(name, drain), as_json)
            return
        if drain:
            _require_idle(name, _drain_foreign(operator, name, _DRAIN_SECONDS))
        who = operator.restart_foreign(name)
        say(f"{name} ends; {who} starts it again", as_json, name=name, started_by=who)


def drain(
    name: NameArgument,
    seconds: SecondsOption = _DRAIN_SECONDS,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Have a device or the framework take no new work, and wait until it is idle. 'nnhal start NAME' undoes it.

    Exit status 1 if it is not idle in time; it drains on.
    """
    with operator_at(directory, admin_key) as operator:
        if operator.is_supervised:
            left = operator.supervisor.drain(name, seconds)
        else:
            left = _drain_foreign(operator, name, seconds)
    idle = not left.executions and not left.models
    what = "and has none" if idle else f"but is not idle: {_left(left)}"
    say(f"{name} takes no new work, {what}", as_json, name=name, idle=idle, **plain(left))
    if not idle:
        raise typer.Exit(1)


def _require_idle(name: str, left: supervisor_pb2.DrainProcessResponse) -> None:
    if left.executions or left.models:
        raise OperatorError(
            f"{name} is not idle: {_left(left)}", f"it drains on; 'nnhal start {name}' lets it take work again"
        )


def _left(left: supervisor_pb2.DrainProcessResponse) -> str:
    models = f"; these models still use it: {', '.join(left.models)}" if left.models else ""
    return f"{left.executions} executions run or wait{models}"


def _say_serves(process: supervisor_pb2.SupervisedProcess, as_json: bool) -> None:
    say(f"{process.name} serves as process {process.pid}", as_json, **plain(process))


def _runnable(command: list[str]) -> list[str]:
    """The command with its program's whole path, since the supervisor's directory is another one."""
    program = command[0]
    return [str(Path(program).absolute()) if "/" in program else program, *command[1:]]


def _option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"option {text!r}, expected KEY=VALUE")
    return key, value


def _drain_foreign(operator: OperatorSession, name: str, seconds: float) -> supervisor_pb2.DrainProcessResponse:
    """Drain a process that nnhal does not supervise: the process itself, and a device also in the framework."""
    process, until = operator.find(name), time.monotonic() + seconds
    with operator.admin(process) as admin:
        while True:
            models: list[str] = []
            if process.kind == "device" and any(other.kind == "framework" for other in operator.processes()):
                with operator.framework() as framework:
                    models = framework.drain_device(name)
            left = supervisor_pb2.DrainProcessResponse(executions=admin.drain(), models=models)
            if not (left.executions or left.models) or time.monotonic() > until:
                return left
            time.sleep(_LOOK_SECONDS)


def _open_foreign(operator: OperatorSession, name: str) -> None:
    process = operator.find(name)
    with operator.admin(process) as admin:
        admin.drain(False)
    if process.kind == "device" and any(other.kind == "framework" for other in operator.processes()):
        with operator.framework() as framework:
            framework.drain_device(name, drain=False)
