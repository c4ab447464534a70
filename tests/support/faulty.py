"""Devices that take faults, and the ways of execution by the methods that faults know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.link.channel import channel_from
from nnhal.remote import RemoteDevice
from nnhal.remote.execution import burst_run
from nnhal.remote.faults import FaultControl
from nnhal.types import NO_DEADLINE, ErrorStatus
from nnhal.v1 import burst_pb2
from nnhal_hosting.supervision import Child
from tests.support.additions import addition_in_ashmem, addition_model
from tests.support.chains import LINE, Chain
from tests.support.entry_points import ALL_ENTRY_POINTS, PLAIN, Target
from tests.support.processes import device_process
from tests.support.wire import WireDevice

METHODS_OF_WAYS = {
    "sync": "PreparedModel.ExecuteSynchronously",
    "sync, config": "PreparedModel.ExecuteSynchronouslyWithConfig",
    "reusable": "Execution.ExecuteSynchronously",
    "reusable, channel": "Channel.Burst",
    "burst, gRPC": "Burst.ExecuteSynchronously",
    "burst, gRPC, config": "Burst.ExecuteSynchronouslyWithConfig",
    "burst, channel": "Channel.Burst",
    "burst, channel, config": "Channel.Burst",
    "fenced": "PreparedModel.ExecuteFenced",
    "fenced, config": "PreparedModel.ExecuteFencedWithConfig",
    "reusable, fenced": "Execution.ExecuteFenced",
    "reusable, launch channel": "Channel.Launch",
    "run channel": "Channel.Run",
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
    with WireDevice(endpoint) as wire, RemoteDevice(endpoint, "ways") as remote:
        if way == "chain":
            chain = Chain([remote], LINE[:2])
            yield lambda: _require_done(chain.run())
        elif way == "run channel":
            execution = remote.prepare_model(addition_model()).create_reusable_execution(addition_in_ashmem().request)
            channel = channel_from(execution.open_run_channel())

            def run() -> None:
                channel.send(burst_run(execution.handle, NO_DEADLINE))
                _require_done(burst_pb2.BurstAnswer.FromString(channel.receive()))

            yield run
        else:
            target, addition = Target(wire, wire.prepare(addition_model())), addition_in_ashmem()
            entry = ALL_ENTRY_POINTS[way]
            yield lambda: addition.check(lambda: entry(target, addition.request, PLAIN, NO_DEADLINE), 1, 2)


def _require_done(answer: burst_pb2.BurstAnswer) -> None:
    if answer.status:
        raise HalError(ErrorStatus(answer.status), answer.message)
