"""Another user of this host, as whom only root can start programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

OTHER_USER, GUEST = 65534, 65533
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of others")
_BECOME = "import encodings.idna, os; os.setgroups({groups}); os.setgid({uid}); os.setuid({uid})\n"
_CONNECT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(connection.getsockname()[1], flush=True)
sys.stdin.read()
"""


def as_other_user(
    imports: str, program: str, *arguments: object, uid: int = OTHER_USER, groups: Sequence[int] = ()
) -> Any:
    """Run a program as another user and return the JSON that it prints. ``imports`` are what root can still read."""
    command = [
        sys.executable,
        "-c",
        f"{imports}\n{_BECOME.format(uid=uid, groups=list(groups))}{program}",
        *map(str, arguments),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def connection_of_other_user(host: str, port: int) -> Iterator[int]:
    command = [
        sys.executable,
        "-c",
        "import socket, sys\n" + _BECOME.format(uid=OTHER_USER, groups=[]) + _CONNECT,
        host,
        str(port),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.communicate()
