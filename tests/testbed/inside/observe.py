"""In a container: what an operator sees of all processes. ``observe.py DIRECTORY KEY_FILE``.

Each line of its input is answered with one JSON object: the processes, and how the framework uses devices.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from nnhal.errors import NnhalError
from nnhal_pages.operating.plain import plain
from nnhal_pages.operating.snapshot import Detail
from nnhal_tools.operate.operator_session import OperatorSession


def main(directory: str, key_file: str) -> None:
    """Answer until the input ends."""
    for _ in sys.stdin:
        with OperatorSession(Path(directory), Path(key_file)) as operator:
            print(json.dumps({"processes": _processes(operator), "framework": _framework(operator)}), flush=True)


def _processes(operator: OperatorSession) -> dict[str, Any]:
    """By name what each says of itself; None if it does not answer."""
    try:
        found = operator.look(Detail.SESSIONS).processes
    except NnhalError:
        return {}
    return {entry.name: None if entry.process is None else plain(entry.process) for entry in found}


def _framework(operator: OperatorSession) -> dict[str, Any] | None:
    """Return what the framework says of devices and models; None if it does not answer."""
    try:
        return plain(operator.contacts.framework().framework())
    except NnhalError:
        return None


if __name__ == "__main__":
    main(*sys.argv[1:])
