"""The story of docs/recording.md: its commands are run, and print what the page shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/recording.md"
_SHOWN = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_NNHAL = "-c 'from nnhal_tools.cli import main; main()'"
_SEPARATOR = "---- the next command ----"


class Shown(NamedTuple):
    """A command, and the lines that the page shows of its output; "…" at the end of one stands for more."""

    command: str
    lines: list[str]


def story() -> Iterator[Shown]:
    for block in _SHOWN.findall(PAGE.read_text()):
        for words in block.split("$ ")[1:]:
            command, *lines = words.splitlines()
            yield Shown(command, [line for line in lines if line != "…"])


def pattern(lines: Sequence[str]) -> str:
    """Return an expression for output that has these lines, in this order, among others."""
    ends = [re.escape(line) if not line.endswith("…") else f"{re.escape(line[:-1])}.*" for line in lines]
    return "".join(f"(?:.*\\n)*?{line}\\n" for line in ends)


@pytest.mark.slow
def test_each_command_of_the_story_prints_what_the_page_shows(tmp_path: Path) -> None:
    shown = list(story())
    assert [command for command, _ in shown if command.startswith("nnhal")]
    for folder in ("examples", "tools"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, arguments in (("python", ""), ("nnhal", _NNHAL)):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    script = f"\necho '{_SEPARATOR}'\n".join(command for command, _ in shown)
    variables = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash"], input=script, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    outputs = done.stdout.split(f"{_SEPARATOR}\n")
    for (command, lines), output in zip(shown, outputs, strict=True):
        assert re.match(pattern(lines), output), f"{command}\n{output}\n{done.stderr}"
