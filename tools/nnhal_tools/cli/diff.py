"""``nnhal diff``: a model on a device and on a reference, layer by layer."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal_tools.cli.completion import complete_driver
from nnhal_tools.cli.model_options import Lengths, Shapes, SignatureName
from nnhal_tools.cli.report_options import HtmlFile, JunitFile, error_console, write_report
from nnhal_tools.diff import Limits, diff_model
from nnhal_tools.given_model import read_model, require_writable
from nnhal_tools.input_files import read_samples

_SILENCE = 10.0
"""Seconds after which a run is told of on an output that is no terminal."""


def told_in_silence(
    console: Console, update: Callable[[str], object], silence: float = _SILENCE
) -> Callable[[str], None]:
    """Return what tells of each run: in the status of a terminal, else in a line if nothing was told for a time."""
    count, last = 0, time.monotonic()

    def tell(what: str) -> None:
        nonlocal count, last
        count += 1
        words = f"run {count}: {what}"
        if console.is_terminal:
            update(words)
        elif time.monotonic() - last >= silence:
            console.print(words, markup=False)
            last = time.monotonic()

    return tell


def diff(
    model: Annotated[Path, typer.Argument(help="An ONNX or TFLite model.")],
    dut: Annotated[
        str,
        typer.Option(
            help="The device: a driver, or the directory of a running device.", autocompletion=complete_driver
        ),
    ],
    ref: Annotated[
        str,
        typer.Option(
            help="What it is compared with: a driver, a directory, 'onnxruntime' or 'litert'.",
            autocompletion=complete_driver,
        ),
    ] = "cpu_ref",
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            "-i",
            help="FILE.npz, FILE.npy for a model of one input, or NAME=FILE.npy; an input that comes again begins the "
            "next sample. Random numbers without any.",
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Samples of random numbers; without it 1, or of a quantised model up to 16.", min=1),
    ] = None,
    seed: Annotated[int, typer.Option(help="Where random numbers begin.", min=0)] = 0,
    max_ulp: Annotated[
        int | None, typer.Option("--max-ulp", help="Allow N steps of 8-bit values, or ULPs of floats.", min=0)
    ] = None,
    min_sqnr: Annotated[float | None, typer.Option("--min-sqnr", help="Demand N decibels of SQNR.")] = None,
    max_error: Annotated[
        float | None, typer.Option("--max-error", help="Allow an error of N, in real numbers.", min=0)
    ] = None,
    min_cosine: Annotated[float | None, typer.Option("--min-cosine", help="Demand a cosine of N.", max=1)] = None,
    signed_zeros: Annotated[bool, typer.Option("--signed-zeros", help="Tell -0.0 from 0.0.")] = False,
    report_only: Annotated[
        bool, typer.Option("--report-only", help="Exit status 0 even if a layer is over the limits.")
    ] = False,
    dim: Lengths = None,
    shape: Shapes = None,
    signature: SignatureName = "",
    deadline: Annotated[
        float | None,
        typer.Option(
            help="Give each preparation and each execution on the device N seconds: a layer that takes longer is over "
            "the limits.",
            min=0.001,
        ),
    ] = None,
    relaxed: Annotated[
        bool, typer.Option("--relaxed", help="Let devices compute float32 with the range and precision of float16.")
    ] = False,
    html: HtmlFile = None,
    junit: JunitFile = None,
    everything: Annotated[bool, typer.Option("--all", help="Show layers without any error too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare MODEL on a device with a reference, layer by layer: where they part, by how much, and why.

    Each layer is compared as it is in the model, and once more by itself on the reference's inputs: an error that it
    has there too is made by it. Any other is inherited, or noise if no layer makes an error.

    A device that dies of a layer, or takes longer than --deadline, is started again, and the other layers run.

    Exit status 1 if a layer is over the limits. Without any (--max-ulp, --min-sqnr, --max-error, --min-cosine), layers
    are judged as conformance tests are, integers must have no bias, and noise is allowed.

    nnhal diff examples/mobilenet/body.tflite --dut ethos_n
    """
    console = error_console()
    require_writable((html, junit))
    given = read_model(model, dim or (), shape or (), signature)
    arrays = read_samples(inputs or (), [tensor.name for tensor in given.inputs])
    limits = Limits(max_ulp, min_sqnr, max_error, min_cosine, signed_zeros)
    with console.status(f"running {model.name} on {ref} and {dut}") as status:
        report = diff_model(
            model,
            ref,
            dut,
            arrays,
            samples,
            seed,
            limits,
            dim or (),
            shape or (),
            signature,
            relaxed,
            deadline,
            told_in_silence(console, status.update),
        )
    report.shows_all = everything
    write_report(report, junit, html, as_json=as_json)
    if not report_only and (report.over or not any(layer.error for layer in report.layers)):
        raise typer.Exit(1)
