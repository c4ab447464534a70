"""Offers of bash when the tabulator is pressed behind a line."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_SCRIPT = """
eval "$(nnhal completion bash)"
for line in "$@"; do
  read -ra COMP_WORDS <<< "$line"
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _nnhal_completion nnhal
  echo "${COMPREPLY[@]}"
done
"""


def completed(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the words for the last one of each line, sorted, by the script of ``nnhal completion bash``."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "--norc", "-c", _SCRIPT, "bash", *lines]
    done = subprocess.run(command, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return {line: sorted(words.split()) for line, words in zip(lines, done.stdout.splitlines(), strict=True)}
