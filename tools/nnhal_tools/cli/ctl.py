"""``nnhal ctl``: what an operator does to processes, devices and models."""

from __future__ import annotations

import signal as signals
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file, read_given_text
from nnhal.v1 import framework_admin_pb2, framework_pb2, supervisor_pb2
from nnhal_client.explanation import explanation_from_wire
from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.explanation.fragment import page
from nnhal_pages.operating.plain import plain
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_driver, complete_model, complete_process
from nnhal_tools.cli.model_options import Everything, pins_from
from nnhal_tools.cli.operating import at_a_testbed, print_json, say
from nnhal_tools.explain import show, with_unknown_times
from nnhal_tools.operate.operator_session import OperatorError, OperatorSession, split_id

_DRAIN_LOOK_SECONDS, _RECORD_LOOK_SECONDS = 0.1, 0.2
_DRAIN_SECONDS = 10.0
_MOST_RECORDED = 1000
app = typer.Typer(
    help="Steer the processes, devices and models of a testbed.", no_args_is_help=True, add_completion=False
)
NameArgument = Annotated[
    str, typer.Argument(help="A process, by its name in 'nnhal ps'.", autocompletion=complete_process)
]
ModelArgument = Annotated[str, typer.Argument(help="A model of the repository.", autocompletion=complete_model)]
DrainOption = Annotated[bool, typer.Option("--drain", help="Let its work end first.")]


@app.callback()
def ctl() -> None:
    """Steer the processes, devices and models of a testbed."""


@app.command()
@at_a_testbed
def start(
    operator: OperatorSession,
    as_json: bool,
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
) -> None:
    """Start a process that was stopped, let one that was drained take work again, or start one more device.

    In COMMAND, {endpoint} stands for the directory in which the device is to serve.
    """
    given = words or []
    if bool(given) == bool(driver) or (len(given) > 1 and not called):
        raise ValueError("expected NAME, or --driver DRIVER or --name NAME -- COMMAND for one more device")
    if driver:
        options = dict(_option(text) for text in option or [])
        _say_serves(operator.supervisor.start_device(driver, called, workers, threads, options), as_json)
    elif called:
        _say_serves(operator.supervisor.start_device(name=called, command=_runnable(given)), as_json)
    elif operator.is_supervised:
        _say_serves(operator.supervisor.start(given[0]), as_json)
    else:
        _open_foreign(operator, given[0])
        say(f"{given[0]} takes work again", as_json, name=given[0])


@app.command()
@at_a_testbed
def stop(
    operator: OperatorSession,
    as_json: bool,
    name: NameArgument,
    drain: DrainOption = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Also forget a device that 'nnhal ctl start' has added.")
    ] = False,
) -> None:
    """Stop a process until 'nnhal ctl start NAME'."""
    if not operator.is_supervised:
        raise operator.refuse_foreign(name, "stopped")
    if remove:
        if drain:
            _require_idle(name, operator.supervisor.drain(name))
        operator.supervisor.remove_device(name)
    else:
        operator.supervisor.stop(name, drain)
    say(f"{name} is {'removed' if remove else 'stopped'}", as_json, name=name, removed=remove)


@app.command()
@at_a_testbed
def restart(operator: OperatorSession, as_json: bool, name: NameArgument, drain: DrainOption = False) -> None:
    """Stop a process and start it again. Under systemd or in a container it exits, and is started by those."""
    if operator.is_supervised:
        _say_serves(operator.supervisor.restart(name, drain), as_json)
        return
    if drain:
        _require_idle(name, _drain_foreign(operator, name, _DRAIN_SECONDS))
    who = operator.restart_foreign(name)
    say(f"{name} ends; {who} starts it again", as_json, name=name, started_by=who)


@app.command()
@at_a_testbed
def drain(
    operator: OperatorSession,
    as_json: bool,
    name: NameArgument,
    seconds: Annotated[
        float, typer.Option(help="How long to wait until it is idle.", min=0.1, max=3600)
    ] = _DRAIN_SECONDS,
) -> None:
    """Have a device or the framework take no new work, and wait until it is idle. 'nnhal ctl start NAME' undoes it.

    Exit status 1 if it is not idle in time; it drains on.
    """
    left = (
        operator.supervisor.drain(name, seconds) if operator.is_supervised else _drain_foreign(operator, name, seconds)
    )
    idle = not left.executions and not left.models
    what = "and has none" if idle else f"but is not idle: {_left(left)}"
    say(f"{name} takes no new work, {what}", as_json, name=name, idle=idle, **plain(left))
    if not idle:
        raise typer.Exit(1)


@app.command()
@at_a_testbed
def kill(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[
        str | None, typer.Argument(help="A process, by its name in 'nnhal ps'.", autocompletion=complete_process)
    ] = None,
    signal: Annotated[str, typer.Option(help="The signal, by name or number.")] = "SIGKILL",
    session: Annotated[
        str, typer.Option(metavar="PROCESS/ID", help="End a session: its link closes, what it owns is released.")
    ] = "",
    execution: Annotated[str, typer.Option(metavar="PROCESS/ID", help="Cancel an execution.")] = "",
) -> None:
    """Kill a process, end a session, or cancel an execution. A process that is killed is started again."""
    if [bool(name), bool(session), bool(execution)].count(True) != 1:
        raise ValueError("expected one of NAME, --session PROCESS/ID and --execution PROCESS/ID")
    if session:
        process, identity = split_id(session, "session")
        with operator.admin(operator.find(process)) as admin:
            admin.end_session(identity)
        say(f"{session} has ended", as_json, session=session)
    elif execution:
        process, identity = split_id(execution, "execution")
        with operator.admin(operator.find(process)) as admin:
            ended = admin.cancel_execution(identity)
        how = "is cancelled" if ended else "runs, and ends as soon as it can"
        say(f"{execution} {how}", as_json, execution=execution, ended=ended)
    elif name is not None:
        number = _signal_number(signal)
        if not operator.is_supervised:
            raise operator.refuse_foreign(name, "killed")
        pid = operator.supervisor.kill(name, number)
        say(f"{name}: process {pid} was sent {signal}", as_json, name=name, pid=pid, signal=number)


@app.command()
@at_a_testbed
def add(
    operator: OperatorSession,
    as_json: bool,
    device: Annotated[str, typer.Argument(metavar="NAME[=DIR]", help="Its sockets are in DIRECTORY/NAME without DIR.")],
) -> None:
    """Have the framework know a device that something else has started."""
    name, _, given = device.partition("=")
    if operator.is_supervised:  # a supervisor of nnhal tells the framework of it itself
        directory = Path(given).absolute() if given else operator.directory / name
        operator.supervisor.start_device(name=name, endpoint=str(directory))
    else:
        directory = Path(given).absolute() if given else operator.find(name).endpoint.directory
        with operator.framework() as framework:
            framework.add_device(name, str(directory))
    say(f"the framework knows {name}", as_json, name=name, known=True)


@app.command()
@at_a_testbed
def remove(operator: OperatorSession, as_json: bool, name: NameArgument) -> None:
    """Have the framework plan without a device that was added, and forget it."""
    if operator.is_supervised:
        operator.supervisor.remove_device(name)
    else:
        with operator.framework() as framework:
            framework.remove_device(name)
    say(f"the framework has forgotten {name}", as_json, name=name, known=False)


@app.command("log-level")
@at_a_testbed
def log_level(
    operator: OperatorSession,
    as_json: bool,
    name: NameArgument,
    level: Annotated[str, typer.Argument(help="debug, info, warning or error.")],
) -> None:
    """Set the level from which on a process logs."""
    with operator.admin(operator.find(name)) as admin:
        admin.set_log_level(level)
    say(f"{name} logs from level {level} on", as_json, name=name, level=level)


@app.command()
@at_a_testbed
def load(operator: OperatorSession, as_json: bool, name: ModelArgument) -> None:
    """Load a model of the repository, or load it again."""
    with operator.framework() as framework:
        framework.load(name)
    say(f"{name} is loaded", as_json, name=name)


@app.command()
@at_a_testbed
def unload(operator: OperatorSession, as_json: bool, name: ModelArgument) -> None:
    """Unload all versions of a model."""
    with operator.framework() as framework:
        framework.unload(name)
    say(f"{name} is unloaded", as_json, name=name)


@app.command()
@at_a_testbed
def upload(
    operator: OperatorSession,
    as_json: bool,
    file: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    name: Annotated[str, typer.Option(help="The name that it gets; the file's by default.")] = "",
    config: Annotated[Path | None, typer.Option(help="A configuration as JSON.")] = None,
) -> None:
    """Load a file as a model that the repository does not have. It is gone when it is unloaded."""
    name = name or file.stem
    config_json = read_given_text(config, "a configuration") if config else ""
    content = read_given_file(file, MOST_MODEL_BYTES, "a model")
    with operator.framework() as framework:
        framework.load(name, config_json, {f"1/model{file.suffix}": content})
    say(f"{name} is loaded", as_json, name=name, bytes=len(content))


@app.command()
@at_a_testbed
def plan(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[
        str,
        typer.Argument(
            help="A model of the repository, or SESSION/MODEL as in s3/digits.", autocompletion=complete_model
        ),
    ],
    pin: Annotated[
        list[str] | None, typer.Option(help="name:GLOB=DEVICE or op:TYPE=DEVICE; may be given several times.")
    ] = None,
    devices: Annotated[str, typer.Option(help="The devices that may be used, with commas between.")] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Have the model run by this plan.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write a page with a picture to FILE.")] = None,
    everything: Everything = False,
) -> None:
    """Explain the plan that a model runs by or, with --pin or --devices, another one, which --apply has it run by."""
    pins = [framework_pb2.Pin(match=match, device=device) for match, device in pins_from(pin or []).items()]
    chosen = [device for device in devices.split(",") if device]
    session, model = split_id(name, "model") if "/" in name else ("", name)
    if apply and session:
        raise ValueError(f"--apply of {name}: expected a model of the repository, not one of a session")
    target = framework_admin_pb2.PlanTarget(model=model, session=session)
    with operator.framework() as framework:
        if pins or chosen or apply:
            explanation = explanation_from_wire(framework.plan(target, pins, chosen))
        else:
            explanation = explanation_from_wire(framework.explain(target).explanation)
        lines = framework.apply(target.model, pins, chosen, target.version) if apply else ""
    explanation = with_unknown_times(explanation)
    if html:
        html.write_text(page(explanation, name))
    if as_json:
        print_json({"name": name, "applied": bool(lines), "config_lines": lines, "explanation": asdict(explanation)})
        return
    console = output_console()
    show(explanation, console, everything=everything)
    if lines:
        console.print(f"{name} runs by this plan; to keep it, write into its configuration:", markup=False)
        console.print(lines, markup=False, soft_wrap=True)


@app.command()
@at_a_testbed
def record(
    operator: OperatorSession,
    as_json: bool,
    name: Annotated[str, typer.Argument(help="A model; 'all' for all of them.", autocompletion=complete_model)],
    count: Annotated[int, typer.Argument(help="How many runs.", min=1, max=_MOST_RECORDED)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file, for Perfetto or chrome://tracing.")],
    seconds: Annotated[float, typer.Option(help="How long to wait for the runs.", min=0.1)] = 60.0,
) -> None:
    """Record the next runs of a model, step by step, and write their timeline to a file.

    Exit status 1 if fewer runs came in time; those are written.
    """
    until = time.monotonic() + seconds
    waiting = Console(stderr=True).status(f"waiting for {count} runs of {name}")
    with operator.framework() as framework, waiting:
        number = framework.record("" if name == "all" else name, count)
        recording = framework.recording(number)
        while recording.left and time.monotonic() < until:
            time.sleep(_RECORD_LOOK_SECONDS)
            recording = framework.recording(number)
    timeline_trace(recording.runs).write(out)
    missing = f"; {recording.left} did not come" if recording.left else ""
    told = f"{len(recording.runs)} runs are in {out}{missing}"
    say(told, as_json, runs=len(recording.runs), left=recording.left, file=str(out))
    if recording.left:
        raise typer.Exit(1)


def _signal_number(text: str) -> int:
    """Raises ValueError if no signal has this name."""
    if text.isdigit():
        return int(text)
    name = text.upper()
    try:
        return signals.Signals[name if name.startswith("SIG") else f"SIG{name}"].value
    except KeyError:
        raise ValueError(f"signal {text!r}, expected a name such as SIGTERM, or a number") from None


def _require_idle(name: str, left: supervisor_pb2.DrainProcessResponse) -> None:
    if left.executions or left.models:
        raise OperatorError(
            f"{name} is not idle: {_left(left)}", f"it drains on; 'nnhal ctl start {name}' lets it take work again"
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
    until = time.monotonic() + seconds
    while True:
        models = _served_models(operator, name, drain=True)
        with operator.admin(operator.find(name)) as admin:
            left = supervisor_pb2.DrainProcessResponse(executions=admin.drain(), models=models)
        if not (left.executions or left.models) or time.monotonic() > until:
            return left
        time.sleep(_DRAIN_LOOK_SECONDS)


def _open_foreign(operator: OperatorSession, name: str) -> None:
    with operator.admin(operator.find(name)) as admin:
        admin.drain(False)
    _served_models(operator, name, drain=False)


def _served_models(operator: OperatorSession, name: str, drain: bool) -> list[str]:
    """Tell the framework, if there is one, of a device that drains or is open; return the models that use it."""
    processes = operator.processes()
    if operator.find(name).kind != "device" or all(process.kind != "framework" for process in processes):
        return []
    with operator.framework() as framework:
        return framework.drain_device(name, drain=drain)
