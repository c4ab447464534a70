"""``nnhal models``: the models that a running framework serves."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal.given_files import MOST_MODEL_BYTES, read_given_file, read_given_text
from nnhal.v1 import framework_admin_pb2, framework_pb2
from nnhal_client.explanation import Explanation, explanation_from_wire
from nnhal_hosting.run_trace import timeline_trace
from nnhal_pages.explanation.fragment import page
from nnhal_pages.terminal import output_console
from nnhal_tools.cli.completion import complete_model
from nnhal_tools.cli.model_options import Everything, pins_from
from nnhal_tools.cli.operating import DirectoryOption, JsonOption, KeyOption, operator_at, print_json, print_rows, say
from nnhal_tools.explain import show, with_unknown_times
from nnhal_tools.operate.holdings import MODEL_COLUMNS, model_rows
from nnhal_tools.operate.operator_session import split_id
from nnhal_tools.operate.plain import plain

_LOOK_SECONDS = 0.2
_MOST_RECORDED = 1000
app = typer.Typer(help="List, load, unload, upload and plan the models of a running framework.", add_completion=False)
ModelArgument = Annotated[str, typer.Argument(help="A model of the repository.", autocompletion=complete_model)]


@app.callback(invoke_without_command=True)
def list_models(
    context: typer.Context,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """List, load, unload, upload and plan the models of a running framework."""
    if context.invoked_subcommand is not None:
        return
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        answer = framework.framework()
    if as_json:
        served, loaded = [plain(model) for model in answer.models], [plain(model) for model in answer.session_models]
        print_json({"served": served, "of_sessions": loaded})
    else:
        print_rows(MODEL_COLUMNS, model_rows(answer), "no models; 'nnhal models load NAME' loads one of the repository")


@app.command("show")
def describe(
    name: ModelArgument,
    version: Annotated[str, typer.Option(help="The version; the newest that is ready by default.")] = "",
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
) -> None:
    """Print a model's configuration, metadata and statistics as JSON."""
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        model = framework.served_model(name, version)
    print_json(
        {
            "name": name,
            "version": model.version,
            "file": model.file,
            "placement": model.placement,
            "config": json.loads(model.config_json or "null"),
            "metadata": json.loads(model.metadata_json or "null"),
            "statistics": json.loads(model.statistics_json or "null"),
        }
    )


@app.command()
def load(
    name: ModelArgument,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a model of the repository, or load it again."""
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        framework.load(name)
    say(f"{name} is loaded", as_json, name=name)


@app.command()
def unload(
    name: ModelArgument,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unload all versions of a model."""
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        framework.unload(name)
    say(f"{name} is unloaded", as_json, name=name)


@app.command()
def upload(
    file: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    name: Annotated[str, typer.Option(help="The name that it gets; the file's by default.")] = "",
    config: Annotated[Path | None, typer.Option(help="A configuration as JSON.")] = None,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load a file as a model that the repository does not have. It is gone when it is unloaded."""
    name = name or file.stem
    config_json = read_given_text(config, "a configuration") if config else ""
    content = read_given_file(file, MOST_MODEL_BYTES, "a model")
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        framework.load(name, config_json, {f"1/model{file.suffix}": content})
    say(f"{name} is loaded", as_json, name=name, bytes=len(content))


@app.command()
def plan(
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
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain the plan that a model runs by or, with --pin or --devices, another one, which --apply has it run by."""
    pins = [framework_pb2.Pin(match=match, device=device) for match, device in pins_from(pin or []).items()]
    chosen = [device for device in devices.split(",") if device]
    target = _target(name)
    if apply and target.session:
        raise ValueError(f"--apply of {name}: expected a model of the repository, not one of a session")
    with operator_at(directory, admin_key) as operator, operator.framework() as framework:
        if pins or chosen or apply:
            explanation = explanation_from_wire(framework.plan(target, pins, chosen))
        else:
            explanation = explanation_from_wire(framework.explain(target).explanation)
        lines = framework.apply(target.model, pins, chosen, target.version) if apply else ""
    explanation = with_unknown_times(explanation)
    if html:
        html.write_text(page(explanation, name))
    _show_plan(explanation, name, lines, as_json, everything)


@app.command()
def record(
    name: Annotated[str, typer.Argument(help="A model; 'all' for all of them.", autocompletion=complete_model)],
    count: Annotated[int, typer.Argument(help="How many runs.", min=1, max=_MOST_RECORDED)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file, for Perfetto or chrome://tracing.")],
    seconds: Annotated[float, typer.Option(help="How long to wait for the runs.", min=0.1)] = 60.0,
    directory: DirectoryOption = None,
    admin_key: KeyOption = None,
    as_json: JsonOption = False,
) -> None:
    """Record the next runs of a model, step by step, and write their timeline to a file.

    Exit status 1 if fewer runs came in time; those are written.
    """
    until = time.monotonic() + seconds
    console = Console(stderr=True)
    with (
        operator_at(directory, admin_key) as operator,
        operator.framework() as framework,
        console.status(f"waiting for {count} runs of {name}"),
    ):
        number = framework.record("" if name == "all" else name, count)
        recording = framework.recording(number)
        while recording.left and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            recording = framework.recording(number)
    timeline_trace(recording.runs).write(out)
    say(
        f"{len(recording.runs)} runs are in {out}" + (f"; {recording.left} did not come" if recording.left else ""),
        as_json,
        runs=len(recording.runs),
        left=recording.left,
        file=str(out),
    )
    if recording.left:
        raise typer.Exit(1)


def _target(name: str) -> framework_admin_pb2.PlanTarget:
    """The model of the repository, or of a session."""
    if "/" not in name:
        return framework_admin_pb2.PlanTarget(model=name)
    session, model = split_id(name, "model")
    return framework_admin_pb2.PlanTarget(model=model, session=session)


def _show_plan(explanation: Explanation, name: str, lines: str, as_json: bool, everything: bool) -> None:
    if as_json:
        print_json({"name": name, "applied": bool(lines), "config_lines": lines, "explanation": asdict(explanation)})
        return
    console = output_console()
    show(explanation, console, everything=everything)
    if lines:
        console.print(f"{name} runs by this plan; to keep it, write into its configuration:", markup=False)
        console.print(lines, markup=False, soft_wrap=True)
