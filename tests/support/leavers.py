"""Starting the clients of ``gone_clients``, and reading what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from nnhal.v1 import link_pb2 as wire
from tests.support import gone_clients

NAME = "soon gone"
"""What they call themselves."""
_HELLO = wire.LinkRequest(hello=wire.Hello(protocol_version=1, client_name=NAME)).SerializeToString()
_PUT = wire.LinkRequest(put=wire.Put(count=1)).SerializeToString()


def leaver(way: str, *links: Path) -> subprocess.Popen[str]:
    """Start a client with these links, which leaves by a function of ``gone_clients``."""
    words = [way, _HELLO.hex(), _PUT.hex(), *map(str, links)]
    command = [sys.executable, "-I", "-S", str(Path(gone_clients.__file__)), *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def reply_in(line: str) -> wire.LinkReply:
    return wire.LinkReply.FromString(bytes.fromhex(line))
