"""The story of docs/debug_a_driver.md: its commands are run, and print what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.command import nnhal

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/debug_a_driver.md"
_SHOWN = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


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
def test_each_command_of_the_story_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = list(story())
    assert [command for command, _ in shown if command.startswith("nnhal")]
    for folder in ("examples", "tools"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for command, lines in shown:
        program, *words = shlex.split(os.path.expandvars(command))
        if program == "export":
            monkeypatch.setenv(*words[0].split("=", 1))
            continue
        done = nnhal(*words) if program == "nnhal" else run([program, *words])
        assert re.match(pattern(lines), done.stdout), f"{command}\n{done.stdout}\n{done.stderr}"


def run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
