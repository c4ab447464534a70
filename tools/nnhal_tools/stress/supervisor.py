"""Running sessions against a device, killing some, and checking what is left in the device."""

from __future__ import annotations

import itertools
import math
import selectors
import time
from collections.abc import Callable, Iterator
from random import Random

from nnhal.errors import NnhalError
from nnhal.remote import RemoteDevice
from nnhal_tools.stress.buffers import PreparedSpecimen
from nnhal_tools.stress.client import StressClient
from nnhal_tools.stress.drawing import draw_clients
from nnhal_tools.stress.held_resources import HeldResources, held_resources, leftovers, resident_bytes
from nnhal_tools.stress.outcomes import Violation
from nnhal_tools.stress.plan import RequestPlan
from nnhal_tools.stress.report import NO_CLIENT, StressFinding, StressReport
from nnhal_tools.stress.script import ClientScript, StressScript
from nnhal_tools.stress.shared import allocated
from nnhal_tools.stress.specimens import addition_for, create_specimens

HANG_SECONDS = 60.0
_CLEAN_SECONDS = 20.0
"""Time that a device has to release what the last session held."""
_WARM_UP = 0.3
"""The share of the time after which the device's memory should not grow."""
RESIDENT_GROWTH_BYTES = 48 << 20
"""Tolerated growth, for threads that stay and free memory that allocators keep. A leak per object exceeds it."""
_TICK_SECONDS = 0.02


Progress = Callable[[StressReport, float], None]
Watch = Callable[[StressReport], bool]


def run_stress(
    device: RemoteDevice,
    name: str,
    seconds: float,
    sessions: int,
    seed: int,
    progress: Progress = lambda *_: None,
    over: Watch = lambda _: False,
) -> StressReport:
    """Run ``sessions`` at a time for ``seconds``. Some are killed; each is replaced when it ends.

    ``device`` is a session of the caller's; no other client may use the device meanwhile. The run ends early when
    ``over`` says so of its report. Raises OSError if the /proc entries of the device's process may not be read.
    """
    report = StressReport(name, seed)
    started = time.monotonic()
    _execute_once(device, report, "a first execution")
    if report.findings:
        return report
    before = held_resources(device)
    clients = draw_clients(seed)

    def phase(length: float) -> bool:
        """Run and clean up. Returns False if the device no longer answers or holds leftovers."""
        run = _Phase(device, sessions, clients, report, over)
        run.run(length, lambda: progress(report, time.monotonic() - started))
        return not over(report) and _is_clean(device, report, before)

    def growth() -> int | None:
        """Return by how much the device's memory grows in a phase; None if there was something else to be found."""
        resident = resident_bytes(device)
        return resident_bytes(device) - resident if phase((1 - _WARM_UP) * seconds) else None

    if phase(_WARM_UP * seconds):
        grown = growth()
        if grown is not None and grown > RESIDENT_GROWTH_BYTES:
            grown = growth()  # the warm-up may have been too short on a busy machine: what leaks grows again
        if grown is not None:
            report.resident_growth_bytes = grown
            if grown > RESIDENT_GROWTH_BYTES:
                report.leftovers = [f"{grown >> 20} MiB more in RAM than after the warm-up"]
            _execute_once(device, report, "a last execution")
    report.seconds = time.monotonic() - started
    return report


def run_script(
    device: RemoteDevice,
    name: str,
    script: StressScript,
    progress: Progress = lambda *_: None,
    over: Watch = lambda _: False,
) -> StressReport:
    """Do what a script says, once. The growth of the device's memory is not judged. Otherwise as ``run_stress``."""
    report = StressReport(name, seed=0)
    started = time.monotonic()
    _execute_once(device, report, "a first execution")
    if not report.findings:
        before = held_resources(device)
        run = _Phase(device, script.sessions, iter(script.clients), report, over)
        run.run(math.inf, lambda: progress(report, time.monotonic() - started))
        if not over(report) and _is_clean(device, report, before):
            _execute_once(device, report, "a last execution")
    report.seconds = time.monotonic() - started
    return report


class _Phase:
    """Runs sessions for some time, and then ends them."""

    def __init__(
        self,
        device: RemoteDevice,
        sessions: int,
        clients: Iterator[ClientScript],
        report: StressReport,
        over: Watch,
    ) -> None:
        self._device = device
        self._sessions = sessions
        self._scripts = clients
        self._report = report
        self._over = over
        self._selector = selectors.DefaultSelector()
        self._clients: set[StressClient] = set()
        self._are_started = False

    def run(self, seconds: float, tick: Callable[[], None]) -> None:
        """Run for some time after the first sessions have begun, or until there are no more, or the device dies.

        The first sessions begin together, since one that ends before another begins does not disturb it. On a busy
        machine sessions may take longer to start than they are to run.
        """
        until = time.monotonic() + HANG_SECONDS
        with self._selector:
            try:
                self._fill()
                while self._clients and time.monotonic() < until and not self._device.gone:
                    self._listen()
                    tick()
                    if self._over(self._report):
                        return
                    if not self._are_started and all(client.is_ready for client in self._clients):
                        until, self._are_started = time.monotonic() + seconds, True
                        for client in self._clients:
                            client.start()
                    self._fill()
                self._end(tick)
            finally:
                for client in self._clients:
                    client.kill()
                    client.end()

    def _fill(self) -> None:
        """Start clients as long as there are fewer than there should be. Those after the first ones begin at once."""
        for script in itertools.islice(self._scripts, self._sessions - len(self._clients)):
            client = StressClient(self._device.endpoint, script, self._report)
            self._clients.add(client)
            self._selector.register(client.reader, selectors.EVENT_READ, client)
            if self._are_started:
                client.start()

    def _listen(self) -> None:
        for key, _ in self._selector.select(_TICK_SECONDS):
            client: StressClient = key.data
            if not client.read():
                self._selector.unregister(client.reader)
                self._clients.remove(client)
                client.end()
        for client in self._clients:
            client.mind(HANG_SECONDS)

    def _end(self, tick: Callable[[], None]) -> None:
        """Ask the sessions to end, and wait for them. One that hangs is reported and killed."""
        for client in self._clients:
            client.stop()
        while self._clients:
            self._listen()
            tick()


def _is_clean(device: RemoteDevice, report: StressReport, before: HeldResources) -> bool:
    """True if the device answers, and holds no more than before. Both are reported."""
    if not _answers(device, report):
        return False
    report.leftovers = leftovers(device, before, _CLEAN_SECONDS)
    return not report.leftovers


def _answers(device: RemoteDevice, report: StressReport) -> bool:
    """True if the device answers. If it does not, that is a violation."""
    try:
        device.identity(_CLEAN_SECONDS)
    except NnhalError as error:
        report.findings.append(StressFinding(NO_CLIENT, report.seed, 0, 0, "after the last session", "", str(error)))
        return False
    return True


def _execute_once(device: RemoteDevice, report: StressReport, what: str) -> None:
    """Execute a valid request, which must succeed."""
    random = Random(0)
    try:
        specimen = addition_for(device, create_specimens(random))
        prepared = PreparedSpecimen(specimen, device.prepare_model(specimen.model))
        plan = RequestPlan(prepared, random)
        plan.verify(prepared.remote.execute(plan.request, plan.config))
        buffer = allocated(device, prepared)
        report.allocates = buffer is not None
        if buffer is not None:
            buffer.release()
        prepared.remote.release()
    except (NnhalError, Violation) as error:
        report.findings.append(StressFinding(NO_CLIENT, report.seed, 0, 0, what, "an addition", str(error)))
