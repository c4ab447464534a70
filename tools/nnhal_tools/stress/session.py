"""``python -m nnhal_tools.stress.session …``: one session with a device, whose threads make all calls of the HAL.

The same seed makes the same choices; only the order of the threads differs from run to run.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError, NnhalError
from nnhal.remote import RemoteDevice
from nnhal_tools.stress.actions import ACTIONS, SHARED_ACTIONS
from nnhal_tools.stress.actor import Actor, Unavailable
from nnhal_tools.stress.messages import MAX_CHARACTERS, Message, ProgressEvent, SessionEnding, Writer
from nnhal_tools.stress.outcomes import Violation
from nnhal_tools.stress.report import CLOSED
from nnhal_tools.stress.shared import SharedObjects, share
from nnhal_tools.stress.specimens import Specimen, addition_for, create_specimens

_OWN = 0.85
"""Probability that a thread uses objects of its own."""


class StressSession:
    """A device, and the threads that share it."""

    def __init__(self, device: RemoteDevice, writer: Writer, steps: int) -> None:
        self.device = device
        self.writer = writer
        self.steps = steps
        self.stopping = threading.Event()
        self.closing = threading.Event()

    def start(self, seed: int, threads: int) -> list[threading.Thread]:
        """Start the threads. Raises HalError."""
        random = Random(seed)
        specimens = create_specimens(random)
        shared = share(self.device, addition_for(self.device, specimens), random)
        started = []
        for number in range(threads):
            arguments = (number, Random(f"{seed}/{number}"), specimens, shared)
            started.append(threading.Thread(target=self._work, args=arguments, name=f"stress-{number}", daemon=True))
        for thread in started:
            thread.start()
        return started

    def _work(self, number: int, random: Random, specimens: Sequence[Specimen], shared: SharedObjects) -> None:
        actor = Actor(
            self.device, specimens, shared.plan.specimen, random, lambda text: worker.note(text), shared.synchronous
        )
        worker = _Worker(self, number, actor, shared)
        step = 0
        while step < self.steps and not self.stopping.is_set():
            if not worker.step(step):
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

    def step(self, number: int) -> bool:
        """Do one random action. Returns False if the session has ended meanwhile."""
        self._step = number
        actor = self._actor
        if actor.random.random() < _OWN:
            name = actor.random.choices(list(ACTIONS), [weight for weight, _ in ACTIONS.values()])[0]
            return self._do(name, lambda: ACTIONS[name][1](actor).name)
        name = actor.random.choices(list(SHARED_ACTIONS), [weight for weight, _ in SHARED_ACTIONS.values()])[0]
        return self._do(name, lambda: SHARED_ACTIONS[name][1](actor, self._shared).name)

    def finish(self, number: int) -> None:
        """Wait for all launches and release all objects."""
        self._step = number
        self._do("end", self._release_all)

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
        elif isinstance(error, HalError):
            text = f"a call that must not fail: {error}"
        else:
            text = "".join(traceback.format_exception(error))
        self._send(ProgressEvent.VIOLATION, text[-MAX_CHARACTERS:])

    def _send(self, event: ProgressEvent, text: str) -> None:
        self._session.writer.send(Message(event, self._number, self._step, text))


def main() -> None:
    """Run a session until its steps are done or SIGTERM arrives."""
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--pipe", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--ending", type=SessionEnding, default=SessionEnding.RELEASE)
    arguments = parser.parse_args()
    faulthandler.enable()  # a crash of the client's own says where
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end if the supervisor is gone
    writer = Writer(arguments.pipe)
    with RemoteDevice(Endpoint(arguments.endpoint), f"nnhal-stress-{arguments.seed}") as device:
        session = StressSession(device, writer, arguments.steps)
        signal.signal(signal.SIGTERM, lambda *_: session.stopping.set())
        try:
            threads = session.start(arguments.seed, arguments.threads)
        except NnhalError as error:
            writer.send(Message(ProgressEvent.VIOLATION, text=f"the shared objects cannot be created: {error}"))
            threads = []
        writer.send(Message(ProgressEvent.READY))
        if threads and arguments.ending is not SessionEnding.RELEASE:
            threads[0].join()
            if arguments.ending is SessionEnding.EXIT:
                writer.send(Message(ProgressEvent.OVER))
                sys.stdout.flush()
                os._exit(0)
            session.closing.set()
            device.close()
        for thread in threads:
            thread.join()
    writer.send(Message(ProgressEvent.OVER))


if __name__ == "__main__":
    main()
