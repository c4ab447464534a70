"""``nnhal doctor``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from nnhal_pages.terminal import output_console
from nnhal_tools.doctor import DoctorFinding, Status, examine
from nnhal_tools.settings import DEFAULT_DIRECTORY, ClientSettings

_STYLES = {Status.OK: "green", Status.WARN: "yellow", Status.FAIL: "bold red"}


def doctor(
    directory: Annotated[
        Path | None, typer.Option(help=f"Where the processes' sockets are; {DEFAULT_DIRECTORY} by default.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check sockets, limits, namespaces, memory, versions and devices, and say what to do.

    Exit status 1 if a check fails.

    nnhal doctor
    """
    findings = examine((directory or ClientSettings().directory).absolute())
    if as_json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings], "failed": _failed(findings)}))
    else:
        console = output_console()
        for finding in findings:
            console.print(_line(finding), soft_wrap=True)
    if _failed(findings):
        raise typer.Exit(1)


def _failed(findings: list[DoctorFinding]) -> int:
    return sum(finding.status is Status.FAIL for finding in findings)


def _line(finding: DoctorFinding) -> Text:
    line = Text(f"{finding.status:<5}", _STYLES[finding.status])
    line.append(f"{finding.check}: {finding.message}", "default")
    if finding.todo:
        line.append(f" -> {finding.todo}", "default")
    return line
