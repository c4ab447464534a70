"""Backends in shared objects of C, served by real device processes."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.descriptor import Descriptor
from nnhal.errors import HalError, TransportError
from nnhal.fence import Fence, FenceError
from nnhal.memory import create_ashmem, open_pool
from nnhal.remote import RemoteDevice
from nnhal.remote.backend import OperationSupport
from nnhal.remote.device import CompilationCache
from nnhal.types import (
    NO_DEADLINE,
    ErrorStatus,
    ExecutionConfig,
    FailedSubgraph,
    NetworkEvent,
    Operand,
    OperandType,
    OperationType,
    OptimizationViews,
    Request,
    Substitution,
    TransferCosts,
)
from nnhal_devices.cpu_ref.driver import CpuRef
from nnhal_devices.dynamic import c_interface, register_backends
from nnhal_devices.dynamic.loader import C_API_VERSION
from nnhal_devices.registry import BackendRegistry
from nnhal_hosting.supervision import Child
from tests.support.additions import (
    addition_in_ashmem,
    addition_model,
    addition_of_any_size,
    addition_of_unknown_size,
    argument,
)
from tests.support.backends import PAGE, warnings_logged
from tests.support.c_backends import EXAMPLE, EXAMPLE_CPP, FEATURES, MODES, compiled, library
from tests.support.command import nnhal
from tests.support.models import Recipe
from tests.support.processes import device_process
from tests.support.waiting import wait_until

F32 = OperandType.TENSOR_FLOAT32
MEASURED = ExecutionConfig(measure_timing=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("backends")
    library(EXAMPLE, made / "Acme_Simple_backend.so")
    library(MODES, made / "Acme_Modes_backend.so.1.2")
    return made


def test_the_example_computes_what_it_takes_and_says_what_not(short_path: Path, folder: Path) -> None:
    recipe = Recipe()
    x, y = recipe.input(F32, (1, 4)), recipe.input(F32, (1, 4))
    values = Operand(F32, (1, 4))
    total = recipe.operation(OperationType.ADD, [x, y, *recipe.integers(0)], values)
    model = recipe.build(recipe.operation(OperationType.RELU, [total], values)).model
    other = Recipe()
    unknown = other.build(other.operation(OperationType.TANH, [other.input(F32, (1, 4))], values)).model
    with (
        device_process("Simple", short_path, "--backend-path", str(folder)) as (child, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        assert device.version() == "acme-simple-1.0"
        assert device.supported_operations(model) == [True, True]
        assert device.supported_operations(unknown) == [False]
        prepared, pool = device.prepare_model(model), create_ashmem(192)
        memory = open_pool(pool, writable=True)
        memory.write(0, np.array([1, -2, 3, -4], np.float32).view(np.uint8))
        memory.write(64, np.array([0.5, 1, -4, 5], np.float32).view(np.uint8))
        for _ in range(2):
            prepared.execute(Request((argument(0, 16), argument(64, 16)), (argument(128, 16),), (pool,)))
            assert memory.read(128, 16).view(np.float32).tolist() == [1.5, 0, 0, 1]
    assert "warning" not in child.said()


def test_the_page_shows_parts_of_the_example_in_c() -> None:
    (shown,) = re.findall(r"^```c\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert [part for part in shown.split("\n\n") if part.strip() not in EXAMPLE.read_text()] == []


def run_in(mode: str, short_path: Path, folder: Path, seconds: float | None = None) -> None:
    """Run an addition on the backend in a mode, with a deadline in so many seconds."""
    options = ("--backend-path", str(folder), "--option", f"mode={mode}")
    with (
        device_process("Modes", short_path, *options) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        prepared, request = device.prepare_model(addition_model()), addition_in_ashmem().request
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        prepared.execute(request, deadline_ns=NO_DEADLINE if seconds is None else now + int(seconds * 1e9))


def test_a_crash_ends_the_process_of_the_device_alone(short_path: Path, folder: Path) -> None:
    with device_process("cpu_ref", short_path) as (_, endpoint), RemoteDevice(endpoint, "test") as other:
        with pytest.raises(TransportError):
            run_in("crash", short_path, folder)
        prepared, addition = other.prepare_model(addition_model()), addition_in_ashmem()
        addition.check(lambda: prepared.execute(addition.request), 1, 2)


@pytest.mark.parametrize(
    ("mode", "status", "words"),
    [
        ("refuse", ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "x" * 256),
        ("unprepared", ErrorStatus.GENERAL_FAILURE, "the compiler is out"),
        ("none", ErrorStatus.INVALID_ARGUMENT, "nothing in this mode"),
    ],
)
def test_a_status_reaches_the_client_with_its_words(
    short_path: Path, folder: Path, mode: str, status: ErrorStatus, words: str
) -> None:
    with pytest.raises(HalError, match=words) as refused:
        run_in(mode, short_path, folder)
    assert refused.value.status == status


def test_a_run_is_told_that_its_deadline_has_passed(short_path: Path, folder: Path) -> None:
    with pytest.raises(HalError) as refused:
        run_in("wait", short_path, folder, 0.5)
    assert refused.value.status in (ErrorStatus.MISSED_DEADLINE_TRANSIENT, ErrorStatus.MISSED_DEADLINE_PERSISTENT)


def test_a_run_tells_dimensions_that_were_unknown(short_path: Path, folder: Path) -> None:
    options = ("--backend-path", str(folder), "--option", "mode=length")
    with (
        device_process("Modes", short_path, *options) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        addition = addition_in_ashmem()
        result = device.prepare_model(addition_of_unknown_size()).execute(addition.request)
    assert [shape.dimensions for shape in result.output_shapes] == [(3,)]
    (pool,) = addition.request.pools
    assert not isinstance(pool, int)
    place = addition.request.outputs[0].location.offset
    assert open_pool(pool, writable=False).read(place, 12).view(np.float32).tolist() == [1, 2, 3]


def test_an_option_that_it_does_not_know_is_refused_in_its_words(short_path: Path, folder: Path) -> None:
    place = str(short_path / "there")
    refused = nnhal("device", "Modes", "--endpoint", place, "--backend-path", str(folder), "--option", "speed=1")
    assert refused.returncode == 2
    assert "BackendFactory raised ValueError: no option is called speed; threads: 1" in refused.stderr
    refused = nnhal("device", "Simple", "--endpoint", place, "--backend-path", str(folder), "--option", "speed=1")
    assert "Simple has no option 'speed', expected none" in refused.stderr


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("-DNOTHING", "BackendFactory returned NULL"),
        ("-DSHORT", f"a structure of 8 bytes, expected at least {c_interface.CBackend.alignment.offset}"),
        ("-DWITHOUT_PREPARE", "the backend has no function prepare or compile"),
    ],
)
def test_what_is_no_backend_is_refused_when_it_is_served(short_path: Path, flag: str, words: str) -> None:
    library(MODES, short_path / "A_b_backend.so", flag, "-Wno-unused-function", "-Wno-unused-variable")
    place = str(short_path / "there")
    refused = nnhal("device", "Modes", "--endpoint", place, "--backend-path", str(short_path))
    assert refused.returncode == 2
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("-DMAJOR=2", f"backend API (2, 1), which is incompatible with {C_API_VERSION} here"),
        ("-DWITHOUT_FACTORY", "it has no BackendFactory"),
        ('-DID=""', "GetBackendId returned ''"),
        ('-DID="a b"', "GetBackendId returned 'a b', expected letters, digits"),
        ('-DID="a/b"', "GetBackendId returned 'a/b'"),
        ('-DID="cpu_ref"', "a driver is already called 'cpu_ref'"),
    ],
)
def test_a_library_that_cannot_be_used_is_only_a_warning(short_path: Path, flag: str, words: str) -> None:
    library(MODES, short_path / "A_b_backend.so", flag, "-Wno-unused-variable")
    known = BackendRegistry()
    known.register("cpu_ref", CpuRef)
    with warnings_logged() as warned:
        register_backends([short_path], known)
    assert known.names() == ["cpu_ref"]
    (warning,) = warned
    assert words in warning.reason


def test_the_structures_are_those_of_the_header(tmp_path: Path) -> None:
    sizes = subprocess.check_output([compiled(MODES, tmp_path / "sizes", "-DSIZES")], text=True)
    names = ("COperand", "COperation", "CModel", "CArgument", "COptions", "CReason", "CPreparation", "CRunLimits")
    others = ("CGroup", "CCosts", "CBackend")
    assert [int(size) for size in sizes.split()] == [
        ctypes.sizeof(getattr(c_interface, name)) for name in (*names, *others)
    ]


def test_the_folder_of_the_header_is_printed() -> None:
    said = subprocess.check_output([sys.executable, "-m", "nnhal_devices.dynamic"], text=True)
    assert (Path(said.strip()) / "nnhal_backend.h").is_file()


def wait(fence: Fence | None) -> None:
    assert fence is not None
    fence.wait()


@contextmanager
def features(short_path: Path, *flags: str) -> Iterator[tuple[Child, RemoteDevice]]:
    """Serve the backend with all that came in version 1.1, made with ``flags``."""
    library(FEATURES, short_path / "Acme_Features_backend.so", "-Wno-unused", *flags)
    with (
        device_process("Features", short_path, "--backend-path", str(short_path)) as (child, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        yield child, device


def test_a_device_says_of_itself_what_its_library_says(short_path: Path) -> None:
    with features(short_path) as (child, device):
        description = device.describe()
        assert (description.alignment, description.realisation) == (128, "a test")
        assert description.modelled_timing
        assert description.asynchronous
        assert description.transfer_costs == TransferCosts(1, 2, 3, 4)
        recipe = Recipe()
        tanh = recipe.operation(OperationType.TANH, [recipe.input(F32, (4,))], Operand(F32, (4,)))
        (answer,) = device.assess_model(recipe.build(tanh).model).operations
        assert answer == OperationSupport(False, "KERNEL", "type 28", "ADD", "add instead")
        views = device.optimize_subgraph(addition_model(operations=4))
        assert views == OptimizationViews(
            (Substitution((1, 2), "one kernel"),), (FailedSubgraph((3,), "too long"),), (0,)
        )
        with pytest.raises(HalError, match="five are too many"):
            device.optimize_subgraph(addition_model(operations=5))
        for event in NetworkEvent:
            device.notify_network(7, event)
    assert [line for line in child.said().splitlines() if " load of " in line or " unload of " in line] == [
        "before load of 1",
        "after unload of 1",
    ]


def test_a_binding_keeps_its_state_and_tells_the_time_of_its_runs(short_path: Path) -> None:
    with features(short_path, "-DWITHOUT_QUEUE") as (child, device):
        prepared = device.prepare_model(addition_model())
        one, other = addition_in_ashmem(), addition_in_ashmem()
        one.fill(1, 2)
        other.fill(1, 2)
        first, second = (prepared.create_reusable_execution(each.request, MEASURED) for each in (one, other))
        order = ((first, one, 1), (first, one, 2), (second, other, 1), (first, one, 3))
        for acquired, (execution, addition, runs) in enumerate(order, 1):
            result = execution.execute()
            assert addition.total()[:4].tolist() == [runs, 0, acquired, 1]
            assert result.timing.time_on_device_ns == 4200
        one.fill(-1, 2)
        with pytest.raises(HalError, match="a negative term"):
            first.execute()
        first.release()
        wait_until(lambda: "unbound after 4 runs" in child.said(), "the binding is released")


def test_runs_are_enqueued_and_done_by_a_sync(short_path: Path) -> None:
    with features(short_path) as (_, device), closing(device.open_launcher()) as launcher:
        additions = [addition_in_ashmem(32) for _ in range(3)]
        prepared = device.prepare_model(addition_model(32))
        executions = [prepared.create_reusable_execution(each.request) for each in additions]
        for execution, addition, term in zip(executions, additions, (1, -1, 1), strict=True):
            addition.fill(term, 0)
            wait(launcher.launch(execution, enqueue=True))
            assert np.isnan(addition.total()).all()
        with pytest.raises(FenceError):  # one of them has failed
            wait(launcher.sync())
        assert [launcher.info(each).status for each in executions] == [
            ErrorStatus.NONE,
            ErrorStatus.GENERAL_FAILURE,
            ErrorStatus.NONE,
        ]
        assert [each.total()[0] for each in additions] == [1, 1, 1]


def _files(count: int) -> tuple[Descriptor, ...]:
    return tuple(Descriptor(os.memfd_create("cache", os.MFD_CLOEXEC)) for _ in range(count))


def test_what_the_library_has_compiled_comes_back_from_the_cache(short_path: Path) -> None:
    with features(short_path) as (_, device):
        needed = device.number_of_cache_files_needed()
        cache = CompilationCache(_files(needed.num_model_cache), _files(needed.num_data_cache), bytes(32))
        found = []
        for prepared in (device.prepare_model(addition_model(), cache=cache), device.prepare_model_from_cache(cache)):
            addition = addition_in_ashmem()
            addition.fill(1, 2)
            prepared.execute(addition.request)
            found.append(addition.total()[1])
        assert found == [0, 1]


def test_a_library_of_the_first_version_is_read_no_further(short_path: Path) -> None:
    library(MODES, short_path / "A_b_backend.so", "-DFIRST_VERSION")
    with (
        device_process("Modes", short_path, "--backend-path", str(short_path)) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        assert device.describe().alignment == 64
        device.prepare_model(addition_model()).execute(addition_in_ashmem().request)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("-DALIGNMENT=3", "alignment is 3, expected a power of two of at most 4096"),
        ("-DWITHOUT_UNBIND", "the backend has no function unbind, and has bind"),
    ],
)
def test_a_backend_that_contradicts_itself_is_refused(short_path: Path, flag: str, words: str) -> None:
    library(FEATURES, short_path / "A_b_backend.so", flag, "-Wno-unused-function")
    place = str(short_path / "there")
    refused = nnhal("device", "Features", "--endpoint", place, "--backend-path", str(short_path))
    assert refused.returncode == 2
    assert words in refused.stderr


@pytest.mark.parametrize(("name", "source"), [("Simple", EXAMPLE), ("Vector", EXAMPLE_CPP)])
def test_the_examples_pass_the_kit(short_path: Path, name: str, source: Path) -> None:
    library(source, short_path / f"Acme_{name}_backend.so")
    with device_process(name, short_path, "--backend-path", str(short_path)) as (_, endpoint):
        done = nnhal("check", str(endpoint.directory))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example_in_cpp_computes_what_it_takes_and_says_what_not(short_path: Path) -> None:
    library(EXAMPLE_CPP, short_path / "Acme_Vector_backend.so")
    with (
        device_process("Vector", short_path, "--backend-path", str(short_path)) as (_, endpoint),
        RemoteDevice(endpoint, "test") as device,
    ):
        addition = addition_in_ashmem()
        prepared = device.prepare_model(addition_model(operations=3))
        addition.check(lambda: prepared.execute(addition.request), 1, 2, times=3)
        (answer,) = device.assess_model(addition_of_any_size()).operations
        assert answer == OperationSupport(False, "DYN_SHAPE", "input 0 of [?]", "known dimensions")
