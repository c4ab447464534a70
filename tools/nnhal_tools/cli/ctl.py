"""``nnhal ctl``: what an operator does to processes, devices and models."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file, read_given_text
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_client.explanation import explanation_from_wire
from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.explanation.fragment import page
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.resources import devices, models, processes, runs, sessions
from nnhal_pages.operating.resources.devices import added
from nnhal_pages.operating.table import Done, split_id
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_driver, complete_model, complete_process
from nnhal_tools.cli.model_options import Everything, pins_from
from nnhal_tools.cli.operating import at_a_testbed, print_json
from nnhal_tools.cli.verbs import command_of, tell
from nnhal_tools.explain import show, with_unknown_times
from nnhal_tools.operate.operator_session import OperatorSession

_RECORD_LOOK_SECONDS = 0.2
app = typer.Typer(
    help="Steer the processes, devices and models of a testbed.", no_args_is_help=True, add_completion=False
)


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
    if not driver and not called:
        tell(operator, processes.start(operator, given[0]), as_json)
        return
    supervisor = operator.contacts.supervisor()
    if driver:
        options = dict(_option(text) for text in option or [])
        process = supervisor.start_device(driver, called, workers, threads, options)
    else:
        process = supervisor.start_device(name=called, command=_runnable(given))
    change = added(process.name)
    tell(operator, Done(f"{process.name} serves as process {process.pid}", plain(process), change=change), as_json)


for _verb in (
    *(verb for verb in processes.VERBS if verb.name not in ("start", "kill")),
    devices.ADD,
    devices.REMOVE,
    *models.MODELS.verbs,
):
    app.command(_verb.name)(command_of(_verb))


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
        tell(operator, sessions.end(operator, session), as_json)
    elif execution:
        tell(operator, runs.cancel(operator, execution), as_json)
    elif name is not None:
        tell(operator, processes.kill(operator, name, signal), as_json)


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
    config_json = read_given_text(config, "a configuration") if config else ""
    content = read_given_file(file, MOST_MODEL_BYTES, "a model")
    done = models.load_files(operator, name or file.stem, config_json, {f"1/model{file.suffix}": content})
    tell(operator, done._replace(values={**done.values, "bytes": len(content)}), as_json)


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
    framework = operator.contacts.framework()
    if pins or chosen or apply:
        explanation = explanation_from_wire(framework.plan(target, pins, chosen))
    else:
        explanation = explanation_from_wire(framework.explain(target).explanation)
    lines = models.apply(operator, model, pin, chosen).noted(operator).values["config_lines"] if apply else ""
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
    count: Annotated[int, typer.Argument(help="How many runs.", min=1, max=runs.MOST_RECORDED)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file, for Perfetto or chrome://tracing.")],
    seconds: Annotated[float, typer.Option(help="How long to wait for the runs.", min=0.1)] = 60.0,
) -> None:
    """Record the next runs of a model, step by step, and write their timeline to a file.

    Exit status 1 if fewer runs came in time; those are written.
    """
    until = time.monotonic() + seconds
    with Console(stderr=True).status(f"waiting for {count} runs of {name}"):
        number = runs.record(operator, name, count).values["recording"]
        recording = operator.contacts.framework().recording(number)
        while recording.left and time.monotonic() < until:
            time.sleep(_RECORD_LOOK_SECONDS)
            recording = operator.contacts.framework().recording(number)
    timeline_trace(recording.runs).write(out)
    missing = f"; {recording.left} did not come" if recording.left else ""
    values = {"runs": len(recording.runs), "left": recording.left, "file": str(out)}
    tell(operator, Done(f"{len(recording.runs)} runs are in {out}{missing}", values, not recording.left), as_json)


def _runnable(command: list[str]) -> list[str]:
    """The command with its program's whole path, since the supervisor's directory is another one."""
    program = command[0]
    return [str(Path(program).absolute()) if "/" in program else program, *command[1:]]


def _option(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise ValueError(f"option {text!r}, expected KEY=VALUE")
    return key, value
