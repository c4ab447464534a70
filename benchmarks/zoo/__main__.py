"""``python -m benchmarks.zoo``: models of other people's packages in nnhal, ONNX Runtime and LiteRT, in one run.

nnhal runs them on cpu_acc and cpu_ref, bound in place; the runtimes run them in this process. Each has one thread.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from benchmarks.__main__ import run
from benchmarks.testbeds import framework_over
from benchmarks.zoo.measuring import Effort, Measured, aims_of, figures_table, measured, refusals_table
from benchmarks.zoo.packages import Folder, Only, chosen
from benchmarks.zoo.runtimes import TWO_DEVICES
from nnhal_tools.bench.runner import Report, say


def zoo(
    only: Only = "*",
    folder: Folder = None,
    rounds: Annotated[int, typer.Option(min=1)] = 7,
    seconds: Annotated[float, typer.Option(help="Of runs of one side in a round.")] = 0.1,
) -> Report:
    """Models of other people's packages in nnhal, ONNX Runtime and LiteRT. It fails if an aim is missed."""
    models: list[Measured] = []
    files = chosen(folder, only)
    with framework_over(*TWO_DEVICES) as framework:
        for file in files:
            models.append(measured(file, framework, Effort(rounds, seconds)))
            say(f"{file.name}: {models[-1].refusal or f'{models[-1].ratio:.2f}'}")
    tables = [figures_table(models)]
    if any(each.refusal for each in models):
        tables.append(refusals_table(models))
    return Report(tables, aims_of(models), figures=[asdict(each) for each in models])


if __name__ == "__main__":
    run(zoo)
