"""``python -m benchmarks.zoo``: models of other people's packages in nnhal, ONNX Runtime and LiteRT, in one run.

nnhal runs them on cpu_acc and cpu_ref, bound in place; the runtimes run them in this process. Each has one thread. The
exit status is 1 if an aim is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console

from benchmarks.aims import aim_table
from benchmarks.environments import InstallationError
from benchmarks.tables import ShownTables
from benchmarks.zoo.measuring import Effort, Measured, aims_of, figures_table, measured, refusals_table
from benchmarks.zoo.packages import ModelFile, distinct, found, installed
from benchmarks.zoo.runtimes import two_devices


def main() -> int:
    """Measure and print. Returns 1 if an aim is missed, 2 if there are no models."""
    arguments = _parser().parse_args()
    console = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)
    try:
        files = distinct(list(found(arguments.folder))) if arguments.folder else installed()
    except InstallationError as error:
        console.print(str(error), markup=False)
        return 2
    chosen = [file for file in files if fnmatchcase(file.name, arguments.only)]
    if not chosen:
        console.print(f"none of {len(files)} model files is called {arguments.only}", markup=False)
        return 2
    models = _measured(chosen, Effort(arguments.rounds, arguments.seconds), console)
    tables = ShownTables()
    tables.show(figures_table(models))
    if any(each.refusal for each in models):
        tables.show(refusals_table(models))
    aims = aims_of(models)
    tables.show(aim_table(aims))
    if arguments.markdown:
        tables.write(arguments.markdown)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in models], indent=1))
    return int(not all(aim.is_met for aim in aims))


def _measured(files: list[ModelFile], effort: Effort, console: Console) -> list[Measured]:
    models: list[Measured] = []
    with two_devices() as framework:
        for file in files:
            models.append(measured(file, framework, effort))
            console.print(f"{file.name}: {models[-1].refusal or f'{models[-1].ratio:.2f}'}", markup=False)
    return models


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.zoo", description=__doc__)
    parser.add_argument(
        "--only", default="*", metavar="PATTERN", help="of names such as mediapipe/iris_landmark.tflite"
    )
    parser.add_argument("--folder", type=Path, help="model files of a folder, in place of those of the packages")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.1, help="of runs of one side in a round")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables to it")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
