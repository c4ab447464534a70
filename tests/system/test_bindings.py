"""Bindings: the same program runs natively and with bytes, in threads and in an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from nnhal.arrays import Array
from nnhal.errors import HalError, NnhalError
from nnhal.types import ErrorStatus
from nnhal_client import Binding, DomainMemory, Model, RunReport, V2Binding, V2Model, aio, connect
from nnhal_client.aio import AsyncBinding, AsyncModel, AsyncV2Binding, AsyncV2Model
from nnhal_service.serving import TensorDescription
from tests.support.model_server import Devices, Served, model_server
from tests.support.onnx_models import joining
from tests.support.repositories import onnx_file, write
from tests.support.v2 import FakeModel
from tests.support.v2_front import serving

HOUR_NS = 3600 * 10**9
LONG_AGO_NS = 1
BIG = 1 << 22
either = pytest.mark.parametrize("native", [True, False], ids=["native", "v2"])


@pytest.fixture(scope="module")
def served(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve ``tanh`` of one size, ``open`` of any size, ``join`` of strings, and ``slow`` with long runs."""
    repository = tmp_path_factory.mktemp("repository")
    write(repository, "tanh", {"1/model.onnx": onnx_file(shape=(1, 8))})
    write(repository, "open", {"1/model.onnx": onnx_file(), "config.pbtxt": "max_batch_size: 8"})
    write(repository, "join", {"1/model.onnx": joining(2)})
    write(repository, "slow", {"1/model.onnx": onnx_file(shape=(1, BIG))})
    with model_server(device_processes, repository) as process:
        yield process


@contextmanager
def opened(served: Served, name: str, native: bool) -> Iterator[Model | V2Model]:
    """Open a model of the server in a separate session."""
    with connect(served.grpc, native=native) as session:
        model = session.open(name)
        assert model.transport == ("native" if native else "v2")
        yield model


@asynccontextmanager
async def opened_aio(served: Served, name: str, native: bool) -> AsyncIterator[AsyncModel | AsyncV2Model]:
    """Open a model of the server in a separate session in an event loop."""
    async with aio.connect(served.grpc, native=native) as session:
        yield await session.open(name)


def row(value: float) -> Array:
    return np.full((1, 8), value, np.float32)


def texts_of(value: Array) -> list[str]:
    """The strings of an array; they are bytes where they travel."""
    return [text.decode() if isinstance(text, bytes) else text for text in value.tolist()]


def hours_from_now() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) + HOUR_NS


def refused(call: Callable[[], object]) -> ErrorStatus:
    with pytest.raises(HalError) as caught:
        call()
    return caught.value.status


@either
class TestBlocking:
    """Bindings of both transports in threads."""

    def test_memory_stays_the_same_from_run_to_run(self, served: Served, native: bool) -> None:
        with opened(served, "tanh", native) as model:
            binding = model.bind()
            x, y = binding.inputs["x"], binding.outputs["y"]
            assert (binding.dimensions["x"], y.shape) == ((1, 8), (1, 8))
            assert y.dtype == np.float32
            for value in (-0.5, 0.25):
                x[...] = value
                report = binding.run()
                assert report.duration_ns > 0
                assert binding.outputs["y"] is y
                np.testing.assert_allclose(y, np.tanh(row(value)), atol=1e-6)
            assert binding.socket_bytes > 0

    def test_inputs_that_fit_are_copied_in(self, served: Served, native: bool) -> None:
        with opened(served, "tanh", native) as model:
            binding = model.bind()
            binding.fill({"x": row(0.5)})
            binding.run()
            np.testing.assert_allclose(binding.outputs["y"], np.tanh(row(0.5)), atol=1e-6)
            with pytest.raises(ValueError, match=r"expected float32 \[1, 8\]"):
                binding.fill({"x": np.zeros((2, 8), np.float32)})
            with pytest.raises(ValueError, match=r"got inputs \['z'\], expected \['x'\]"):
                binding.fill({"z": row(0)})

    def test_strings_are_put_into_inputs_and_taken_out_of_outputs(self, served: Served, native: bool) -> None:
        with opened(served, "join", native) as model, model.bind() as binding:
            for texts in (["nn", "ä"], ["", "a much longer one"]):
                binding.put("a", np.array(texts, object))
                binding.put("b", np.array(["hal", ""]))
                assert isinstance(binding.run(), RunReport)
                assert texts_of(binding.value("y")) == [f"{texts[0]}hal", texts[1]]
            for call in (binding.value, lambda name: binding.put(name, np.array(["", ""]))):
                with pytest.raises(ValueError, match="put 'z'"):
                    call("z")

    def test_inputs_with_unknown_dimensions_need_them_when_bound(self, served: Served, native: bool) -> None:
        with opened(served, "open", native) as model:
            with pytest.raises(ValueError, match="expected all of them in dimensions="):
                model.bind()
            binding = model.bind(dimensions={"x": (3, 8)})
            assert binding.inputs["x"].shape == (3, 8)
            binding.inputs["x"][...] = 0.5
            assert binding.run().dimensions["y"] == (3, 8)
            np.testing.assert_allclose(binding.outputs["y"], np.tanh(np.full((3, 8), 0.5)), atol=1e-6)

    def test_a_run_has_a_deadline(self, served: Served, native: bool) -> None:
        with opened(served, "tanh", native) as model:
            binding = model.bind()
            assert refused(lambda: binding.run(LONG_AGO_NS)) == ErrorStatus.MISSED_DEADLINE_PERSISTENT
            binding.run(hours_from_now())
            binding.run()

    def test_a_measured_run_reports_when_it_was_requested(self, served: Served, native: bool) -> None:
        with opened(served, "tanh", native) as model:
            report = model.bind(measure_timing=True).run()
            assert 0 < report.called_ns <= report.answered_ns
            assert model.bind().run().called_ns == -1

    def test_a_closed_binding_cannot_run(self, served: Served, native: bool) -> None:
        with opened(served, "tanh", native) as model:
            binding = model.bind(direct=False)
            binding.run()
            binding.close()
            with pytest.raises(NnhalError):
                binding.run()
            assert binding.outputs["y"].shape == (1, 8)
            model.unload()


@either
class TestAsyncio:
    """Bindings of both transports in an event loop."""

    def test_runs_one_after_the_other(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened_aio(served, "tanh", native) as model:
                binding: AsyncBinding | AsyncV2Binding = await model.bind()
                binding.fill({"x": row(0.5)})
                y = binding.outputs["y"]
                reports = await asyncio.gather(*(binding.run() for _ in range(5)))
                assert all(report.duration_ns > 0 for report in reports)
                assert binding.outputs["y"] is y
                np.testing.assert_allclose(y, np.tanh(row(0.5)), atol=1e-6)
                with pytest.raises(HalError) as caught:
                    await binding.run(LONG_AGO_NS)
                assert caught.value.status == ErrorStatus.MISSED_DEADLINE_PERSISTENT
                await binding.run(hours_from_now())
                await binding.close()
                with pytest.raises(NnhalError):
                    await binding.run()

        asyncio.run(scenario())

    def test_strings_are_put_into_inputs_and_taken_out_of_outputs(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened_aio(served, "join", native) as model, await model.bind() as binding:
                binding.put("a", np.array(["nn", "ä"], object))
                binding.put("b", np.array(["hal", ""]))
                await binding.run()
                assert texts_of(binding.value("y")) == ["nnhal", "ä"]

        asyncio.run(scenario())

    def test_a_cancelled_run_leaves_the_binding_usable(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened_aio(served, "slow", native) as model:
                binding = await model.bind()
                for _ in range(3):
                    task = asyncio.ensure_future(binding.run())
                    await asyncio.sleep(0)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                binding.inputs["x"][...] = 0.5
                await binding.run()
                np.testing.assert_allclose(binding.outputs["y"][0, :5], np.tanh(0.5), atol=1e-6)

        asyncio.run(scenario())

    def test_inputs_with_unknown_dimensions_need_them_when_bound(self, served: Served, native: bool) -> None:
        async def scenario() -> None:
            async with opened_aio(served, "open", native) as model:
                with pytest.raises(ValueError, match="expected all of them in dimensions="):
                    await model.bind()
                binding = await model.bind(dimensions={"x": (2, 8)})
                assert (await binding.run()).dimensions["y"] == (2, 8)

        asyncio.run(scenario())


class TestBytes:
    """Bindings that send tensors as bytes."""

    def test_dimensions_that_contradict_the_model_are_refused(self, served: Served) -> None:
        with (
            opened(served, "open", native=False) as model,
            pytest.raises(ValueError, match=r"expected float32 \[\?, 8\]"),
        ):
            model.bind(dimensions={"x": (3, 7)})

    def test_memory_of_a_native_session_is_refused(self, served: Served) -> None:
        with connect(served.endpoint.directory) as native, opened(served, "tanh", native=False) as model:
            memory = native.allocate([native.open("tanh").input_role("x")])
            assert isinstance(memory, DomainMemory)
            with pytest.raises(ValueError, match=r"got memory for \['x'\], expected none"):
                model.bind(memories={"x": memory})

    def test_strings_are_sent_as_bytes(self, short_path: Path) -> None:
        text = TensorDescription("x", "BYTES", (-1,))
        with (
            serving(short_path, FakeModel(inputs=(text,), outputs=(text,))),
            connect(f"unix:{short_path / 'v2.sock'}") as session,
        ):
            binding = session.open("echo").bind(dimensions={"x": (2,)})
            binding.inputs["x"][...] = [b"once", b"upon"]
            binding.run()
            assert binding.outputs["x"].tolist() == [b"once", b"upon"]

    def test_both_kinds_of_binding_have_the_same_interface(self, served: Served) -> None:
        for native, kind in ((True, Binding), (False, V2Binding)):
            with opened(served, "tanh", native) as model:
                assert isinstance(model.bind(), kind)
