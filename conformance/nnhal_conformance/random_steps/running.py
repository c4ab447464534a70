"""Takes random steps, and finds the few of them that show that a device breaks the contract."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from hypothesis import HealthCheck, Phase, configuration, reject, settings
from hypothesis import seed as with_seed
from hypothesis.stateful import run_state_machine_as_test

from nnhal.endpoint import Endpoint
from nnhal_conformance.random_steps.device import AskedDevice
from nnhal_conformance.random_steps.report import Walk
from nnhal_conformance.random_steps.steps import DeviceSteps, steps_with

SECONDS = 10.0
"""Time in which a device is to give each answer."""
_STEPS_OF_AN_EXAMPLE = 30
SHRINKING_STEPS = 2_500
"""The most steps that are taken to find fewer that show a violation."""
_STEPS_TO_SETTLE = 1_000
"""The steps until all models and ways of execution have come up, and a device's memory need not grow any more."""
_RESIDENT_GROWTH_BYTES = 48 << 20
"""How much the device's memory may grow in the second half, for threads that stay and memory that allocators keep."""


def walk(
    device: AskedDevice,
    steps: int,
    seed: int | None = None,
    home: Path | None = None,
    tell: Callable[[Walk], object] = lambda _: None,
    shrinking_steps: int = SHRINKING_STEPS,
) -> Walk:
    """Take so many steps or a few more, and shrink those that show that the device breaks the contract.

    ``home`` is the folder of Hypothesis, which keeps such steps there, and takes them first the next time. ``tell``
    hears of the walk now and then. At most ``shrinking_steps`` are taken after the first violation.
    """
    done, resident, found_at = Walk(), 0, 0

    def begin() -> None:
        nonlocal resident, found_at
        if done.broken:
            found_at = found_at or done.taken.total()
            if done.taken.total() > found_at + shrinking_steps:
                reject()
        if not resident and done.taken.total() >= max(steps // 2, _STEPS_TO_SETTLE):
            resident = device.resident_bytes
        tell(done)

    if home is not None:
        configuration.set_hypothesis_home_dir(home)
    machine = steps_with(device, done, begin)
    chosen = settings(
        max_examples=-(-steps // _STEPS_OF_AN_EXAMPLE),
        stateful_step_count=_STEPS_OF_AN_EXAMPLE,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[phase for phase in Phase if phase is not Phase.explain],
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        run_state_machine_as_test(machine if seed is None else with_seed(seed)(machine), settings=chosen)
    except Exception:
        if not done.broken:
            raise
        done.comes_again = _comes_again(device, done)
    grown = device.resident_bytes - resident
    if not done.broken and resident and grown > _RESIDENT_GROWTH_BYTES:
        done.broken = f"got {grown >> 20} MiB more in RAM after the second half of the steps, expected hardly any"
    return done


def _comes_again(device: AskedDevice, done: Walk) -> bool:
    """Take the steps of a report again, and return whether they show the violation."""
    again = Walk()
    with suppress(Exception):  # the device may answer anything, and may be gone for good
        state = steps_with(device, again)()
        try:
            for line in done.steps:
                exec(line, {"state": state})
        finally:
            state.teardown()
    return bool(again.broken)


def steps_of(directory: str) -> DeviceSteps:
    """Begin steps with the device that serves at a directory. A step raises if the device breaks the contract.

    Raises DeadObjectError or TransportError if it cannot be asked.
    """
    endpoint = Endpoint(Path(directory))
    return steps_with(AskedDevice(lambda: endpoint, SECONDS), Walk())()
