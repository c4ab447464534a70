"""The asyncio client, natively and with bytes, against one server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal.types import ErrorStatus
from nnhal_client import V2Server, aio
from nnhal_client.aio import AsyncModel, AsyncV2Model
from tests.support.model_server import Devices, Served, model_server
from tests.support.repositories import onnx_file, write

CONCURRENCY = 3
UNLOAD = "RepositoryModelUnload", wire.RepositoryModelUnloadResponse
LOAD = "RepositoryModelLoad", wire.RepositoryModelLoadResponse
AnyModel = AsyncModel | AsyncV2Model


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a server with ``tanh`` of one size, ``open`` of any size, and ``slow``, whose runs take long."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "open", {"1/model.onnx": onnx_file()})
    write(repository, "slow", {"1/model.onnx": onnx_file(shape=(1, 1 << 22))})
    with model_server(device_processes, repository) as process:
        yield process


@asynccontextmanager
async def opened(served: Served, name: str, native: bool) -> AsyncIterator[AnyModel]:
    async with aio.connect(served.grpc, native=native, concurrency=CONCURRENCY) as session:
        model: AnyModel = await session.open(name)
        assert model.transport == ("native" if native else "v2")
        yield model


def row(value: float) -> Array:
    return np.full((1, 8), value, np.float32)


async def check(model: AnyModel, value: float) -> None:
    """Check the result of a run."""
    outputs = await model.run({"x": row(value)})
    np.testing.assert_allclose(np.asarray(outputs["y"]), np.tanh(row(value)), atol=1e-6)


@pytest.mark.parametrize("native", [True, False], ids=["native", "v2"])
class TestEither:
    """Models over both transports."""

    def test_simultaneous_runs_have_their_own_results(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "tanh", native) as model:
                for _ in range(5):
                    await asyncio.gather(*(check(model, number / 10) for number in range(20)))

        asyncio.run(scenario())

    def test_cancelled_runs_leave_the_model_usable(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "slow", native) as model:
                x = np.ones((1, 1 << 22), np.float32)
                for _ in range(3):
                    tasks = [asyncio.ensure_future(model.run({"x": x})) for _ in range(2 * CONCURRENCY)]
                    await asyncio.sleep(0)
                    for task in tasks:
                        task.cancel()
                    ended = await asyncio.gather(*tasks, return_exceptions=True)
                    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
                outputs = await asyncio.gather(*(model.run({"x": x * number}) for number in range(CONCURRENCY)))
                for number, output in enumerate(outputs):
                    np.testing.assert_allclose(np.asarray(output["y"])[0, :5], np.tanh(number), atol=1e-6)

        asyncio.run(scenario())

    def test_inputs_that_do_not_fit_are_refused_and_leave_the_model_usable(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "tanh", native) as model:
                for _ in range(2 * CONCURRENCY):
                    with pytest.raises(ValueError, match=r"expected float32 \[1, 8\]"):
                        await model.run({"x": np.zeros((2, 8), np.float32)})
                await check(model, 0.5)

        asyncio.run(scenario())

    def test_unknown_dimensions_may_differ_from_run_to_run(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "open", native) as model:

                async def check_rows(rows: int) -> None:
                    x = np.random.default_rng(rows).standard_normal((rows, 8), np.float32)
                    outputs = await model.run({"x": x})
                    np.testing.assert_allclose(np.asarray(outputs["y"]), np.tanh(x), atol=1e-6)

                await asyncio.gather(*(check_rows(rows % 5 + 1) for rows in range(25)))

        asyncio.run(scenario())

    def test_a_model_that_is_reloaded_goes_on(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "tanh", native) as model:
                await asyncio.gather(*(check(model, 0.1) for _ in range(CONCURRENCY)))
                with V2Server(served.grpc) as server:
                    await asyncio.to_thread(server.call, UNLOAD, wire.RepositoryModelUnloadRequest(model_name="tanh"))
                    try:
                        with pytest.raises(HalError) as caught:
                            await model.run({"x": row(1)})
                        assert caught.value.status == ErrorStatus.DEVICE_UNAVAILABLE
                    finally:
                        load = wire.RepositoryModelLoadRequest(model_name="tanh")
                        await asyncio.to_thread(server.call, LOAD, load)
                await asyncio.gather(*(check(model, number / 10) for number in range(4 * CONCURRENCY)))

        asyncio.run(scenario())

    def test_a_closed_session_runs_nothing(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened(served, "tanh", native) as model:
                await check(model, 0.5)
            with pytest.raises(NnhalError):
                await model.run({"x": row(1)})

        asyncio.run(scenario())


def test_native_runs_need_no_threads(served: Served) -> None:
    async def scenario() -> None:
        async with opened(served, "tanh", native=True) as model:
            await asyncio.gather(*(check(model, 0.5) for _ in range(CONCURRENCY)))
            before = {thread.ident for thread in threading.enumerate()}
            for _ in range(20):
                await asyncio.gather(*(check(model, 0.5) for _ in range(CONCURRENCY)))
            assert {thread.ident for thread in threading.enumerate()} <= before

    asyncio.run(scenario())
