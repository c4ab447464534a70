"""Properties that the blocking client in several threads and that of asyncio share: both drive the same core."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import numpy as np
import onnx
import pytest
from onnx import helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.extensions.values import Value
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, RunReport, V2Server, aio, connect
from nnhal_client.aio import AsyncFramework, AsyncModel
from nnhal_tools.up import DEFAULT_TOPOLOGY, Testbed
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.repositories import onnx_file, write
from tests.support.waiting import wait_until

CONCURRENCY = 3
AT_ONCE = 4 * CONCURRENCY
UNLOAD = "RepositoryModelUnload", wire.RepositoryModelUnloadResponse
LOAD = "RepositoryModelLoad", wire.RepositoryModelLoadResponse
T = TypeVar("T")
Outputs = dict[str, Value]


class Blocking:
    """The blocking client, in threads."""

    def __init__(self, directory: Path, concurrency: int = CONCURRENCY) -> None:
        self._stack = ExitStack()
        session = self._stack.enter_context(connect(directory, concurrency=concurrency))
        assert isinstance(session, Framework)
        self._session = session
        self._threads = self._stack.enter_context(ThreadPoolExecutor(AT_ONCE))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def load(self, path: Path, **options: Any) -> Model:
        return self._session.load(path, **options)

    def open(self, name: str) -> Model:
        return self._session.open(name)

    def run_all(self, model: Any, inputs: Sequence[Array]) -> list[Outputs]:
        return list(self._threads.map(lambda x: model.run({"x": x}), inputs))

    def run_with_report(self, model: Any, x: Array, measure: bool = True) -> tuple[Outputs, RunReport]:
        found: tuple[Outputs, RunReport] = model.run_with_report({"x": x}, measure)
        return found

    def run_in_context(self, model: Any, x: Array, during: Callable[[], None]) -> Array:
        with model, model.bind(dimensions={"x": x.shape}) as binding:
            binding.fill({"x": x})
            binding.run()
            during()
            return np.array(binding.outputs["y"])


class Asyncio:
    """The client of asyncio, in one event loop."""

    def __init__(self, directory: Path, concurrency: int = CONCURRENCY) -> None:
        self._runner = asyncio.Runner()
        self._opening = aio.connect(directory, concurrency=concurrency)
        session = self._runner.run(self._opening.__aenter__())
        assert isinstance(session, AsyncFramework)
        self._session = session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._opening.__aexit__(None, None, None))
        self._runner.close()

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def load(self, path: Path, **options: Any) -> AsyncModel:
        return self._do(self._session.load(path, **options))

    def open(self, name: str) -> AsyncModel:
        return self._do(self._session.open(name))

    def run_all(self, model: Any, inputs: Sequence[Array]) -> list[Outputs]:
        async def together() -> list[Outputs]:
            return list(await asyncio.gather(*(model.run({"x": x}) for x in inputs)))

        return self._do(together())

    def run_with_report(self, model: Any, x: Array, measure: bool = True) -> tuple[Outputs, RunReport]:
        found: tuple[Outputs, RunReport] = self._do(model.run_with_report({"x": x}, measure))
        return found

    def run_in_context(self, model: Any, x: Array, during: Callable[[], None]) -> Array:
        async def inside() -> Array:
            async with model, await model.bind(dimensions={"x": x.shape}) as binding:
                binding.fill({"x": x})
                await binding.run()
                await asyncio.to_thread(during)
                return np.array(binding.outputs["y"])

        return self._do(inside())


Client = Blocking | Asyncio
KINDS: dict[Literal["blocking", "asyncio"], type[Blocking] | type[Asyncio]] = {"blocking": Blocking, "asyncio": Asyncio}


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with ``tanh`` of one size and ``any`` of any."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "any", {"1/model.onnx": onnx_file()})
    with model_server(device_processes, repository) as process:
        yield process


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, served: Served) -> Iterator[Client]:
    with KINDS[request.param](served.endpoint.directory) as session:
        yield session


def rows(count: int, seed: int) -> Array:
    """An input for ``any``."""
    return np.random.default_rng(seed).standard_normal((count, 8), np.float32)


def require_tanh(outputs: Sequence[Outputs], inputs: Sequence[Array]) -> None:
    """See that each run has the result of its own input."""
    for output, x in zip(outputs, inputs, strict=True):
        np.testing.assert_allclose(np.asarray(output["y"]), np.tanh(x), atol=1e-6)


def test_first_runs_at_one_time_get_as_much_memory_as_their_outputs_need(client: Client, tmp_path: Path) -> None:
    """The size of the output is only known after a run, and more than any binding has at first."""
    path = tmp_path / "find.onnx"
    onnx.save(onnx_model([helper.make_node("NonZero", ["x"], ["y"])], {"x": [5000]}, ["y"]), path)
    inputs = [(np.arange(5000) % (number + 1) == 0).astype(np.float32) for number in range(AT_ONCE)]
    for output, x in zip(client.run_all(client.load(path), inputs), inputs, strict=True):
        np.testing.assert_array_equal(np.asarray(output["y"]), np.stack(np.nonzero(x)))


def test_runs_at_one_time_have_their_own_results(client: Client) -> None:
    model = client.open("tanh")
    inputs = [rows(1, number) for number in range(10 * AT_ONCE)]
    require_tanh(client.run_all(model, inputs), inputs)


def test_dimensions_may_differ_from_run_to_run(client: Client) -> None:
    model = client.open("any")
    inputs = [rows(number % 5 + 1, number) for number in range(3 * AT_ONCE)]
    require_tanh(client.run_all(model, inputs), inputs)


def test_no_more_bindings_than_runs_may_be_under_way(client: Client, device_processes: Devices) -> None:
    with RemoteDevice(device_processes.endpoints["cpu_acc"]) as device:
        before = device.usage().executions
        model = client.open("tanh")
        client.run_all(model, [rows(1, number) for number in range(10 * AT_ONCE)])
        assert 0 < device.usage().executions - before <= CONCURRENCY


def test_a_model_that_is_loaded_again_goes_on(client: Client, served: Served) -> None:
    model = client.open("tanh")
    inputs = [rows(1, number) for number in range(AT_ONCE)]
    require_tanh(client.run_all(model, inputs), inputs)
    with V2Server(served.grpc) as server:
        server.call(UNLOAD, wire.RepositoryModelUnloadRequest(model_name="tanh"))
        try:
            with pytest.raises(HalError) as caught:
                client.run_all(model, inputs)
            assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
        finally:
            server.call(LOAD, wire.RepositoryModelLoadRequest(model_name="tanh"))
    require_tanh(client.run_all(model, inputs), inputs)


def test_a_report_comes_with_the_outputs(client: Client) -> None:
    x = rows(1, 0)
    outputs, report = client.run_with_report(client.open("tanh"), x)
    require_tanh([outputs], [x])
    assert len(report.steps) == 1 and 0 < report.called_ns <= report.answered_ns


def test_a_file_is_loaded_with_options(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "tanh.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    assert client.load(path, devices=["cpu_ref"]).steps == ("cpu_ref",)
    assert client.load(path, pins={"name:*": "cpu_acc"}, fallback="deny").steps == ("cpu_acc",)


def test_models_and_bindings_are_released_with_their_contexts(client: Client, device_processes: Devices) -> None:
    x = rows(2, 0)
    with RemoteDevice(device_processes.endpoints["cpu_acc"]) as device:
        before = device.usage().executions
        held: list[int] = []
        y = client.run_in_context(client.open("any"), x, lambda: held.append(device.usage().executions - before))
        assert held == [1]
        wait_until(lambda: device.usage().executions == before, "the binding is released")
    np.testing.assert_allclose(y, np.tanh(x), atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_runs_are_direct_again_after_a_device_has_died(
    kind: Literal["blocking", "asyncio"], short_path: Path, tmp_path: Path
) -> None:
    path = tmp_path / "tanh.onnx"
    path.write_bytes(onnx_file(shape=(1, 8)))
    x = rows(1, 0)
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed, KINDS[kind](testbed.framework) as client:
        model = client.load(path)

        def is_direct() -> bool:
            outputs, report = client.run_with_report(model, x, measure=False)
            require_tanh([outputs], [x])
            return report.direct

        assert is_direct()
        os.kill(testbed.pid("cpu_acc"), signal.SIGKILL)
        assert not is_direct()
        wait_until(is_direct, "a binding has a run channel again")
