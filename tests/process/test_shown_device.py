"""Objects of a device's sessions, and its driver's figures of itself and of prepared models, as operators see them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nnhal.endpoint import Endpoint
from nnhal.memory import create_ashmem
from nnhal.remote import RemoteDevice
from nnhal.remote.admin import DeviceAdmin
from nnhal.types import BufferRole, HardwareBuffer, Memory
from nnhal.v1 import admin_pb2 as wire
from tests.support.additions import (
    ELEMENTS,
    POOL_BYTES,
    POOL_KINDS,
    TENSOR_BYTES,
    Addition,
    addition_in_ashmem,
    addition_model,
    addition_of_constant,
)
from tests.support.processes import device_process
from tests.support.refusals import FAILURE, INVALID, refusal

NAME = "Shown"
_BACKEND = f"""
from dataclasses import replace

from nnhal.types import OperationType
from nnhal_devices import figures as f
from nnhal_devices.backend import DeviceFigure, OperationLimit
from nnhal_devices.cpu_ref.driver import CpuRef

BACKEND_ID = {NAME!r}
API_VERSION = (1, 4)


class Shown:
    name = BACKEND_ID
    version = "test-shown-1.0"

    def __init__(self, options):
        self._reference = CpuRef(options)
        self.backend = replace(
            self._reference.backend,
            operation_limits=lambda: [OperationLimit(OperationType.ADD, "sums below 100")],
            figures=lambda: [DeviceFigure("tiles", 8), DeviceFigure("OCM", 0.5, "MiB")],
            temperature=lambda: 36.5,
        )

    def __getattr__(self, member):
        return getattr(self._reference, member)

    def prepare(self, model, options):
        workload = self._reference.prepare(model, options)
        return Workload(workload) if len(model.model.main.operations) == 1 else Unshown(workload)


class Unshown:
    def __init__(self, reference):
        self.bind = reference.bind


class Workload(Unshown):
    def operation_times(self, control):
        control.check()
        return f.OperationTimes((f.TimedOperation("sum", (0,), 2.5),), "cycles", True, "by hand")

    def figures(self):
        return f.WorkloadFigures(
            (f.MemoryFigure("SRAM", 1024, "cycles", (f.MemorySpan("sum", 64, 32, 1.5, 7.5, "feature map"),)),),
            (f.TimeFigure("units", "cycles", ("array", "DMA"), (f.TimeSpan(1, "weights", 0, 4, "copy"),)),),
        )


create_backend = Shown
"""


class Served:
    """A device process with such a driver, and the key of its operators."""

    def __init__(self, endpoint: Endpoint, key: str, admin: DeviceAdmin) -> None:
        self.endpoint = endpoint
        self.key = key
        self.admin = admin

    def process(self) -> wire.GetProcessResponse:
        return self.admin.process()


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as name:
        backends = Path(name) / "backends"
        backends.mkdir()
        (backends / "Test_Shown_backend.py").write_text(_BACKEND)
        with (
            device_process(NAME, Path(name), "--backend-path", str(backends)) as (child, endpoint),
            DeviceAdmin(endpoint, child.admin_key) as admin,
        ):
            yield Served(endpoint, child.admin_key, admin)


@pytest.fixture
def session(served: Served) -> Iterator[RemoteDevice]:
    with RemoteDevice(served.endpoint, "photo app") as remote:
        yield remote


@pytest.fixture
def other(served: Served) -> Iterator[RemoteDevice]:
    with RemoteDevice(served.endpoint, "other app") as remote:
        yield remote


def id_of(served: Served, client: str) -> str:
    """Return the public id of the only session of a client."""
    (found,) = (session.id for session in served.process().sessions if session.client_name == client)
    return found


def memory_of(memory: Memory) -> str:
    """Return what tells a pool's file apart, as a test finds it out."""
    descriptor = memory.handle.descriptors[0] if isinstance(memory, HardwareBuffer) else memory.descriptor
    found = os.fstat(descriptor.fileno())
    return f"{found.st_dev}:{found.st_ino}"


def pool_with(served: Served, memory: Memory) -> wire.PoolState:
    """Return what is told of one pool."""
    (found,) = (pool for pool in served.process().pools if pool.memory == memory_of(memory))
    return found


@pytest.mark.parametrize(
    ("made_as", "kind", "mapped", "seals"),
    [
        ("ashmem", "ashmem", True, ["seal", "shrink", "grow"]),
        ("blob", "hardware_buffer_blob", True, ["seal", "shrink", "grow"]),
        ("sealed file", "mmap_fd", True, ["seal", "shrink", "grow"]),
        ("unsealed file", "mmap_fd", False, []),
    ],
)
def test_a_pool_of_an_execution_is_listed_with_its_kind_and_how_it_is_used(
    served: Served, session: RemoteDevice, tmp_path: Path, made_as: str, kind: str, mapped: bool, seals: list[str]
) -> None:
    memory = POOL_KINDS[made_as](POOL_BYTES, tmp_path)
    prepared = session.prepare_model(addition_model())
    executions = [prepared.create_reusable_execution(Addition(memory).request) for _ in range(2)]
    pool = pool_with(served, memory)
    assert (pool.session, pool.kind, pool.bytes) == (id_of(served, "photo app"), kind, POOL_BYTES)
    assert (pool.mapped, pool.staged) == (mapped, not mapped)
    assert list(pool.seals) == seals
    assert pool.purpose == f"executions of prepared model {prepared.handle}"
    for execution in executions:
        execution.release()


def test_a_pool_is_listed_with_all_that_it_is_for(served: Served, session: RemoteDevice) -> None:
    memory = create_ashmem(POOL_BYTES)
    of_constant = session.prepare_model(addition_of_constant(memory))
    assert pool_with(served, memory).purpose == f"constants of prepared model {of_constant.handle}"
    prepared = session.prepare_model(addition_model())
    burst = prepared.configure_execution_burst()
    burst.execute(Addition(memory).request, [7])
    execution = prepared.create_reusable_execution(Addition(memory).request)
    pool = pool_with(served, memory)
    assert pool.mapped
    assert pool.purpose == (
        f"constants of prepared model {of_constant.handle}, executions of prepared model {prepared.handle}, "
        f"burst {burst.handle}"
    )
    prepared.release()
    assert "executions of a released prepared model" in pool_with(served, memory).purpose
    execution.release()


def test_memory_that_was_put_on_a_link_is_listed_while_nothing_uses_it(
    served: Served, session: RemoteDevice, tmp_path: Path
) -> None:
    memory = create_ashmem(POOL_BYTES)
    prepared = session.prepare_model(addition_model())
    prepared.execute(Addition(memory).request)
    pool = pool_with(served, memory)
    assert (pool.kind, pool.bytes, pool.mapped, pool.staged) == ("ashmem", POOL_BYTES, False, False)
    assert pool.purpose == "on the link, used by nothing"


def test_a_client_sees_its_own_pools_and_buffers_only(
    served: Served, session: RemoteDevice, other: RemoteDevice
) -> None:
    kept = []
    for device in (session, other):
        prepared = device.prepare_model(addition_model())
        kept.append(prepared.create_reusable_execution(addition_in_ashmem().request))
        device.allocate([prepared], [BufferRole(0, 0)])
    seen = served.process()
    assert {pool.session for pool in seen.pools} == {id_of(served, "photo app"), id_of(served, "other app")}
    assert len(seen.buffers) == 2
    brief = served.admin.process(brief=True)
    assert not (brief.sessions or brief.pools or brief.buffers)
    assert (brief.pid, brief.is_whole) == (seen.pid, True)
    with DeviceAdmin(served.endpoint) as stranger:
        own = stranger.process()
    assert (list(own.pools), list(own.buffers)) == ([], [])


def test_a_buffer_is_listed_with_its_roles_and_whether_it_holds_values(served: Served, session: RemoteDevice) -> None:
    first, second = (session.prepare_model(addition_model()) for _ in range(2))
    buffer = session.allocate([first, second], [BufferRole(1, 0)], [BufferRole(0, 0)])
    (state,) = served.process().buffers
    assert (state.session, state.token) == (id_of(served, "photo app"), buffer.token)
    assert (state.bytes, list(state.dimensions)) == (TENSOR_BYTES, [ELEMENTS])
    assert state.type == "TENSOR_FLOAT32"
    assert list(state.roles) == sorted(
        [f"output 0 of prepared model {first.handle}", f"input 0 of prepared model {second.handle}"]
    )
    assert not state.initialized
    buffer.copy_from(create_ashmem(TENSOR_BYTES))
    first.release()
    (state,) = served.process().buffers
    assert state.initialized
    assert "output 0 of a released prepared model" in state.roles
    device = served.admin.device()
    assert (device.buffer_bytes, device.buffer_limit_bytes) == (TENSOR_BYTES, 4 << 30)
    assert device.buffer_copied_bytes >= TENSOR_BYTES


def test_what_a_session_owns_is_counted_with_the_bytes_that_the_device_holds_for_it(
    served: Served, session: RemoteDevice, tmp_path: Path
) -> None:
    prepared = session.prepare_model(addition_model())
    session.allocate([prepared], [BufferRole(0, 0)])
    staged = Addition(POOL_KINDS["unsealed file"](POOL_BYTES, tmp_path))
    execution = prepared.create_reusable_execution(staged.request)
    channel = execution.open_run_channel()
    launcher = session.open_launcher()
    burst = prepared.configure_execution_burst()
    (own,) = (each for each in served.process().sessions if each.client_name == "photo app")
    assert {each.kind: (each.count, each.bytes) for each in own.objects} == {
        "buffer": (1, TENSOR_BYTES),
        "burst": (1, 0),
        "execution": (1, 3 * TENSOR_BYTES),
        "launch channel": (1, 0),
        "prepared model": (1, 0),
        "run channel": (1, 0),
    }
    for item in (burst, launcher):
        item.close()
    channel.close()


def test_a_driver_shows_figures_limits_and_a_temperature(served: Served) -> None:
    device = served.admin.device(with_limits=True)
    assert device.temperature == 36.5
    assert [(f.name, f.value, f.unit) for f in device.figures[:2]] == [("tiles", 8, ""), ("OCM", 0.5, "MiB")]
    assert [f.name for f in device.figures[2:]] == ["memory that only the process has", "limit of that memory"]
    assert [(limit.operation, limit.conditions) for limit in device.limits] == [("ADD", "sums below 100")]
    with DeviceAdmin(served.endpoint) as stranger:
        assert stranger.device().workers == 1


def test_a_driver_shows_the_memory_and_time_of_a_prepared_model(served: Served, session: RemoteDevice) -> None:
    prepared = session.prepare_model(addition_model())
    figures = served.admin.figures(prepared.handle)
    (memory,), (time,) = figures.memories, figures.times
    assert (memory.name, memory.limit_bytes, memory.unit) == ("SRAM", 1024, "cycles")
    (span,) = memory.spans
    assert (span.name, span.address, span.bytes, span.begin, span.end) == ("sum", 64, 32, 1.5, 7.5)
    assert span.kind == "feature map"
    assert (time.name, time.unit, list(time.lanes)) == ("units", "cycles", ["array", "DMA"])
    (activity,) = time.spans
    assert (activity.lane, activity.name, activity.begin, activity.end) == (1, "weights", 0, 4)
    assert activity.kind == "copy"
    without = session.prepare_model(addition_model(operations=2))
    assert served.admin.figures(without.handle) == wire.WorkloadFigures()
    prepared.release()
    refusal(lambda: served.admin.figures(prepared.handle), INVALID, f"prepared model {prepared.handle} exists in no")


def test_a_driver_tells_the_time_of_each_operation_when_it_is_asked(served: Served, session: RemoteDevice) -> None:
    told = served.admin.operation_times(session.prepare_model(addition_model()).handle)
    assert (told.unit, told.is_modelled, told.note, told.operation_count) == ("cycles", True, "by hand", 1)
    ((name, numbers, duration),) = [(each.name, list(each.operations), each.duration) for each in told.times]
    assert (name, numbers, duration) == ("sum", [0], 2.5)
    without = served.admin.operation_times(session.prepare_model(addition_model(operations=2)).handle)
    assert (without.note, without.operation_count) == (f"{NAME} does not tell the times of operations", 2)


def test_only_an_operator_looks_at_the_figures_of_a_prepared_model(served: Served, session: RemoteDevice) -> None:
    prepared = session.prepare_model(addition_model())
    with DeviceAdmin(served.endpoint) as stranger:
        refusal(lambda: stranger.figures(prepared.handle), FAILURE, "only an operator may look at the figures")
        refusal(
            lambda: stranger.operation_times(prepared.handle), FAILURE, "only an operator may measure the operations"
        )
