"""Clients that die: a process that holds the sockets of a session and calls on its channels, until it is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from nnhal_conformance.rule import require
from nnhal_conformance.session import Datagrams, DeviceSession

_PROGRAM = """
import select, socket, sys
answers, *given = sys.argv[1:]
calls = {socket.socket(fileno=int(fd)): bytes.fromhex(call) for fd, call in zip(given[::2], given[1::2])}
answers = int(answers)
for channel, call in calls.items():
    channel.setblocking(True)
    channel.send(call)
if not answers:
    print("calls", flush=True)
while True:
    for channel in select.select(list(calls), [], [])[0]:
        if not channel.recv(1 << 16):
            sys.exit("a channel has ended")
        answers -= 1
        if not answers:
            print("calls", flush=True)
        channel.send(calls[channel])
"""
"""Calls on channels that it was given, and again as soon as it has an answer. It prints a line after some answers."""


def die_in_calls(session: DeviceSession, calls: Sequence[tuple[Datagrams, bytes]], answers: int = 0) -> None:
    """Hand a session to a process that makes calls on channels of the session, and kill it in the midst of them.

    This process then holds neither the link nor those channels. ``answers`` is how many the other one awaits before.
    """
    link = session.link.fileno()
    arguments = [text for channel, call in calls for text in (str(channel.fileno()), call.hex())]
    victim = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, str(answers), *arguments],
        pass_fds=(link, *(channel.fileno() for channel, _ in calls)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with victim:
        try:
            assert victim.stdout is not None
            said = victim.stdout.readline()
            for channel, _ in calls:
                channel.close()
            session.link.close()
        finally:
            victim.kill()
    require(said == b"calls\n", "the end of a channel", f"{answers or 'an'} answers to calls of a client")
