"""Devices that take faults, and the ways of execution by the methods that faults know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.remote.faults import FaultControl
from nnhal.types import ErrorStatus
from nnhal.v1 import burst_pb2
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.calls import WAYS, held_by, session_with
from tests.support.chains import LINE, Chain
from tests.support.processes import device_process

METHODS_OF_WAYS = {
    "request": "PreparedModel.ExecuteSynchronouslyWithConfig",
    "plain": "PreparedModel.ExecuteSynchronously",
    "reusable": "Execution.ExecuteSynchronously",
    "burst": "Channel.Burst",
    "burst-plain": "Channel.Burst",
    "burst-reusable": "Channel.Burst",
    "burst-call": "Burst.ExecuteSynchronouslyWithConfig",
    "burst-call-plain": "Burst.ExecuteSynchronously",
    "run-channel": "Channel.Run",
    "launch-request": "PreparedModel.ExecuteFencedWithConfig",
    "launch-plain": "PreparedModel.ExecuteFenced",
    "launch-reusable": "Execution.ExecuteFenced",
    "launch-launch-channel": "Channel.Launch",
    "chain": "Channel.Chain",
}
"""The methods of faults, by the ways of execution."""


@dataclass(frozen=True)
class FaultyDevice:
    """A device process that takes faults."""

    child: Child
    endpoint: Endpoint
    control: FaultControl


@contextmanager
def faulty_device(directory: Path, *options: str, driver: str = "cpu_ref") -> Iterator[FaultyDevice]:
    """Run a device that takes faults until the context ends."""
    with (
        device_process(driver, directory, "--allow-faults", *options) as (child, endpoint),
        FaultControl(endpoint) as control,
    ):
        yield FaultyDevice(child, endpoint, control)


def fault(what: str, method: str = "execute", **values: Any) -> dict[str, Any]:
    return {"what": what, "method": method, **values}


@contextmanager
def execution_in(way: str, endpoint: Endpoint) -> Iterator[Callable[[], None]]:
    """Prepare an addition, and return what executes it in a way: it raises HalError if the execution fails."""
    with session_with(endpoint) as session, RemoteDevice(endpoint, "ways") as remote:
        if way == "chain":
            chain = Chain([remote], LINE[:2])
            yield lambda: _require_done(chain.run())
        else:
            addition = addition_in_ashmem()
            run = WAYS[way](held_by(session, addition_model()), addition.request)
            yield lambda: addition.check(run, 1, 2)


def _require_done(answer: burst_pb2.BurstAnswer) -> None:
    if answer.status:
        raise HalError(ErrorStatus(answer.status), answer.message)
