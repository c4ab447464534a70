"""``python -m nnhal_tools.stress.session …``: one session with a device, whose threads act as a script says.

The same script makes the same choices; only the order of the threads differs from run to run.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Literal

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal.threads import BriefThread
from nnhal_tools.stress.actions import ACTIONS, SHARED_ACTIONS
from nnhal_tools.stress.actor import Actor, NotOffered, Unavailable
from nnhal_tools.stress.messages import MAX_CHARACTERS, Message, ProgressEvent, Writer
from nnhal_tools.stress.outcomes import Violation
from nnhal_tools.stress.report import CLOSED, NOT_OFFERED
from nnhal_tools.stress.script import ENDINGS, Act, ClientScript, SessionEnding, decode_client
from nnhal_tools.stress.shared import SharedObjects, share
from nnhal_tools.stress.specimens import Specimen, addition_for, create_specimens


class StressSession:
    """A device, and the threads that share it."""

    def __init__(self, device: RemoteDevice, writer: Writer, script: ClientScript) -> None:
        self.device = device
        self.writer = writer
        self.script = script
        self.stopping = threading.Event()
        self.closing = threading.Event()

    def prepare(self) -> list[threading.Thread]:
        """Create what the threads share, and return the threads, which are still to be started. Raises HalError."""
        random = Random(self.script.seed)
        specimens = create_specimens(random)
        shared = share(self.device, addition_for(self.device, specimens), random)
        return [
            BriefThread(partial(self._work, number, specimens, shared), f"stress-{number}")
            for number in range(len(self.script.threads))
        ]

    def _work(self, number: int, specimens: Sequence[Specimen], shared: SharedObjects) -> None:
        actor = Actor(
            self.device,
            specimens,
            shared.plan.specimen,
            lambda text: worker.note(text),
            shared.synchronous,
            shared.buffer is not None,
        )
        worker = _Worker(self, number, actor, shared)
        step = 0
        for act in self.script.threads[number]:
            if self.stopping.is_set():
                break
            if not worker.step(step, act):
                return
            step += 1
        worker.finish(step)


class _Worker:
    """One thread of a session."""

    def __init__(self, session: StressSession, number: int, actor: Actor, shared: SharedObjects) -> None:
        self._session = session
        self._number = number
        self._actor = actor
        self._shared = shared
        self._step = 0

    def note(self, text: str) -> None:
        """Report the arguments of the present action."""
        self._send(ProgressEvent.NOTE, text)

    def step(self, number: int, act: Act) -> bool:
        """Do an action. Returns False if the session has ended meanwhile."""
        self._step = number
        actor, name = self._actor, act.action
        actor.random = Random(act.seed)
        if name in ENDINGS:
            return self._end(ENDINGS[name])
        if name in ACTIONS:
            return self._do(name, lambda: ACTIONS[name][1](actor).name)
        return self._do(name, lambda: SHARED_ACTIONS[name][1](actor, self._shared).name)

    def finish(self, number: int) -> None:
        """Wait for all launches and release all objects."""
        self._step = number
        self._do("end", self._release_all)

    def _end(self, ending: SessionEnding) -> Literal[False]:
        """End the session while other threads are at work."""
        self._send(ProgressEvent.BEGIN, ending.value)
        if ending is SessionEnding.KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        if ending is SessionEnding.EXIT:
            self._send(ProgressEvent.OVER, "")
            os._exit(0)
        self._session.closing.set()
        self._session.device.close()
        self._send(ProgressEvent.END, CLOSED)
        return False

    def _release_all(self) -> str:
        actor = self._actor
        while actor.launches:
            actor.settle(actor.launches[0])
        for thing in (*actor.executions, *actor.bursts, *actor.buffers, *actor.prepared):
            actor.release(thing)
        return "NONE"

    def _do(self, name: str, act: Callable[[], str]) -> bool:
        self._send(ProgressEvent.BEGIN, name)
        try:
            outcome = act()
        except NotOffered:
            outcome = NOT_OFFERED
        except Unavailable as unavailable:
            outcome = unavailable.status.name
        except Exception as error:
            if self._session.closing.is_set() and isinstance(error, (Violation, NnhalError)):
                self._send(ProgressEvent.END, CLOSED)
                return False
            self._report(error)
            self._actor.forget()
            outcome = "VIOLATION"
            if self._session.device.gone:
                self._send(ProgressEvent.END, outcome)
                return False
        self._send(ProgressEvent.END, outcome)
        return True

    def _report(self, error: Exception) -> None:
        if isinstance(error, Violation):
            text = str(error)
        elif isinstance(error, DeadObjectError):
            text = "the device is gone: its process has ended, or it has closed the session"
        elif isinstance(error, HalError):
            text = f"a call that must not fail: {error}"
        else:
            text = "".join(traceback.format_exception(error))
        self._send(ProgressEvent.VIOLATION, text[-MAX_CHARACTERS:])

    def _send(self, event: ProgressEvent, text: str) -> None:
        self._session.writer.send(Message(event, self._number, self._step, text))


def main() -> None:
    """Run a session until its script is done or SIGTERM arrives.

    The supervisor sends it the descriptors of its script, of the pipe for its messages, of a pipe that it closes when
    the session may begin, and of the memory that the session prints to.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint", type=Path)
    parser.add_argument("--supervisor", type=int, required=True)
    arguments = parser.parse_args()
    with socket.socket(fileno=arguments.supervisor) as supervisor:
        _, (content, pipe, start, printed), _, _ = socket.recv_fds(supervisor, 1, 4)
    os.dup2(printed, sys.stderr.fileno())
    faulthandler.enable()  # a crash of the client's own says where
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end if the supervisor is gone
    writer = Writer(pipe)
    with os.fdopen(content, "rb") as file:
        script = decode_client(file.read())
    with RemoteDevice(Endpoint(arguments.endpoint), f"nnhal-stress-{script.client}") as device:
        session = StressSession(device, writer, script)
        signal.signal(signal.SIGTERM, lambda *_: session.stopping.set())
        try:
            threads = session.prepare()
        except NnhalError as error:
            writer.send(Message(ProgressEvent.VIOLATION, text=f"the shared objects cannot be created: {error}"))
            threads = []
        writer.send(Message(ProgressEvent.READY))
        os.read(start, 1)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    writer.send(Message(ProgressEvent.OVER))


if __name__ == "__main__":
    main()
