"""The forms of a report: options that commands which run cases share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from nnhal_pages.terminal import output_console, show_parts
from nnhal_tools.cases.report import CaseReport

JunitFile = Annotated[Path | None, typer.Option("--junit", help="Write JUnit's XML for CI to FILE.")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write a page to FILE.")]


def write_report(
    report: CaseReport,
    junit: Path | None,
    html: Path | None,
    json_file: Path | None = None,
    as_json: bool = False,
) -> None:
    """Write a report to files, and print it, as JSON or for people. Raises OSError."""
    if junit:
        junit.write_bytes(report.junit())
    if html:
        html.write_text(report.page())
    content = json.dumps(report.as_dict(), allow_nan=False) if json_file or as_json else ""
    if json_file:
        json_file.write_text(content)
    if as_json:
        print(content, flush=True)
    else:
        show_parts(report.parts(), output_console())


def error_console() -> Console:
    """A console for what is no part of a report."""
    return Console(stderr=True, soft_wrap=True)
