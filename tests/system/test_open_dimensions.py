"""Models whose files leave dimensions open run by plans for those that are used."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
from onnx import TensorProto, helper

from nnhal.arrays import Array
from nnhal.errors import HalError
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus
from nnhal_client import Framework, Model, OutputTooSmallError, connect
from nnhal_tools.up import DEFAULT_TOPOLOGY, DeviceEntry, Testbed
from tests.support.model_server import devices, model_server
from tests.support.onnx_models import onnx_model
from tests.support.processes import WARM
from tests.support.repositories import write
from tests.support.testbeds import framework_over
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def framework() -> Iterator[Framework]:
    """A framework over the CPU's devices."""
    with framework_over(DeviceEntry(driver="cpu_acc"), DeviceEntry(driver="cpu_ref")) as session:
        yield session


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "rows.onnx"
    path.write_bytes(sliced())
    return path


def sliced() -> bytes:
    """Return tanh(x)[:, 1:] with any number of rows, which takes fewer operations once that is known.

    cpu_acc cannot run the file's nodes as they are: a factor of 1 follows from the dimensions by way of an operator
    that ONNX Runtime has not for booleans.
    """
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Slice", ["a", "one", "four", "one"], ["b"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Equal", ["shape", "shape"], ["same"]),
        helper.make_node("Where", ["same", "same", "same"], ["all"]),
        helper.make_node("Cast", ["all"], ["ones"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMin", ["ones"], ["factor"]),
        helper.make_node("Mul", ["b", "factor"], ["y"]),
    ]
    constants = {"one": np.array([1], np.int64), "four": np.array([4], np.int64)}
    return onnx_model(nodes, {"x": ["rows", 4]}, ["y"], constants).SerializeToString()


@pytest.fixture
def model(framework: Framework, path: Path) -> Iterator[Model]:
    with framework.load(path) as loaded:
        yield loaded


def rows(count: int) -> Array:
    return np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)


def expected(x: Array) -> Array:
    return np.tanh(x)[:, 1:]


def devices_of(model: Model, x: Array) -> list[str]:
    outputs, report = model.run_with_report({"x": x})
    np.testing.assert_allclose(outputs["y"], expected(x), atol=1e-6)
    return [step.device for step in report.steps]


def test_a_binding_runs_by_a_plan_for_its_dimensions_and_knows_its_outputs(model: Model) -> None:
    for count in (3, 1, 3):
        with model.bind(dimensions={"x": (count, 4)}) as binding:
            assert binding.outputs["y"].shape == (count, 3)
            x = rows(count)
            binding.inputs["x"][...] = x
            assert binding.run().direct
            np.testing.assert_allclose(binding.outputs["y"], expected(x), atol=1e-6)


@pytest.mark.parametrize("given", [{}, {"y": (2, 3)}], ids=["unknown", "given too small"])
def test_outputs_have_the_memory_that_their_dimensions_need(model: Model, given: dict[str, tuple[int, ...]]) -> None:
    x = rows(3000)
    with model.bind(dimensions={"x": x.shape, **given}) as binding:
        assert binding.outputs["y"].shape == (3000, 3)
        assert binding.room("y") == binding.outputs["y"].nbytes
        binding.inputs["x"][...] = x
        assert binding.run().direct
        np.testing.assert_allclose(binding.outputs["y"], expected(x), atol=1e-6)


def test_an_output_whose_dimensions_depend_on_values_is_told_by_a_run(framework: Framework, tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["y"]), helper.make_node("NonZero", ["x"], ["z"])]
    (tmp_path / "values.onnx").write_bytes(onnx_model(nodes, {"x": ["rows", 4]}, ["y", "z"]).SerializeToString())
    x = rows(3000)
    with framework.load(tmp_path / "values.onnx") as model:
        with model.bind(dimensions={"x": x.shape}) as binding:
            assert binding.outputs["y"].shape == x.shape
            binding.inputs["x"][...] = x
            with pytest.raises(OutputTooSmallError) as caught:
                binding.run()
        assert caught.value.dimensions["z"] == (2, x.size)
        with model.bind(dimensions={"x": x.shape, **caught.value.dimensions}) as binding:
            binding.inputs["x"][...] = x
            binding.run()
            np.testing.assert_allclose(binding.outputs["y"], np.tanh(x), atol=1e-6)
            np.testing.assert_array_equal(binding.outputs["z"], np.nonzero(x))


def test_runs_of_the_same_dimensions_come_to_use_a_plan_for_them(model: Model) -> None:
    x = rows(5)
    assert devices_of(model, x) == list(model.steps)
    wait_until(lambda: devices_of(model, x) == ["cpu_acc"], "cpu_acc runs all")
    assert devices_of(model, rows(6)) == list(model.steps)


def test_a_model_may_be_loaded_for_certain_dimensions(framework: Framework, path: Path) -> None:
    with framework.load(path, dimensions={"x": (2, 4)}) as loaded:
        assert [tensor.dimensions for tensor in (*loaded.inputs, *loaded.outputs)] == [(2, 4), (2, 3)]
        assert loaded.steps == ("cpu_acc",)
        assert devices_of(loaded, rows(2)) == ["cpu_acc"]


def test_some_open_dimensions_may_be_fixed_at_loading(framework: Framework, tmp_path: Path) -> None:
    (tmp_path / "two.onnx").write_bytes(
        onnx_model([helper.make_node("Tanh", ["x"], ["y"])], {"x": ["rows", "columns"]}, ["y"]).SerializeToString()
    )
    with framework.load(tmp_path / "two.onnx", dimensions={"x": (0, 4)}) as loaded:
        assert [tensor.dimensions for tensor in (*loaded.inputs, *loaded.outputs)] == [(0, 4), (0, 4)]
        for count in (2, 3):
            np.testing.assert_allclose(loaded.run({"x": rows(count)})["y"], np.tanh(rows(count)), atol=1e-6)
        with pytest.raises(HalError, match=r"\[2, 5\]"):
            loaded.bind(dimensions={"x": (2, 5)})


@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        ({"x": (2, 5)}, r"shape \[2, 5\] is given for input 'x' of shape \[\?, 4\]"),
        ({"x": (2,)}, r"shape \[2\] is given"),
        ({"z": (2, 4)}, "a shape is given for 'z', the model's inputs are"),
        ({"x": (0, 5)}, r"shape \[0, 5\] is given for input 'x' of shape \[\?, 4\]"),
        ({"x": ()}, r"dimensions \[\] of input 'x'"),
    ],
)
def test_dimensions_that_do_not_fit_are_refused(
    framework: Framework, path: Path, dimensions: dict[str, tuple[int, ...]], words: str
) -> None:
    with pytest.raises(HalError, match=words) as caught:
        framework.load(path, dimensions=dimensions)
    assert caught.value.status == ErrorStatus.INVALID_ARGUMENT


def test_plans_that_were_used_long_ago_are_released(short_path: Path, path: Path) -> None:
    with (
        Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed,
        connect(testbed.framework) as session,
        RemoteDevice(testbed.endpoint("cpu_acc")) as device,
    ):

        def prepared() -> int:
            return device.usage().prepared_models

        with session.load(path) as loaded:
            own = prepared()
            for count in range(1, 20):
                loaded.bind(dimensions={"x": (count, 4)}).close()
            wait_until(lambda: prepared() == own + 8, "eight plans are kept")
        wait_until(lambda: not prepared(), "all are released")


def test_a_plan_for_dimensions_follows_its_devices(short_path: Path, path: Path) -> None:
    with Testbed(DEFAULT_TOPOLOGY, short_path, zygote=WARM) as testbed, connect(testbed.framework) as session:
        model, x = session.load(path), rows(2)
        with model.bind(measure_timing=True, dimensions={"x": x.shape}) as binding:
            binding.inputs["x"][...] = x

            def devices() -> list[str]:
                report = binding.run()
                np.testing.assert_allclose(binding.outputs["y"], expected(x), atol=1e-6)
                return [step.device for step in report.steps]

            assert devices() == ["cpu_acc"]
            killed = testbed.pid("cpu_acc")
            os.kill(killed, signal.SIGKILL)
            assert devices() in (["cpu_ref"], ["cpu_acc"])  # it may be back already
            wait_until(lambda: testbed.pid("cpu_acc") != killed, "the device is started again")
            wait_until(lambda: devices() == ["cpu_acc"], "the device is used again")


@pytest.mark.parametrize("workers", [1, 2])
def test_requests_of_the_same_dimensions_come_to_use_a_plan_for_them(tmp_path: Path, workers: int) -> None:
    write(tmp_path, "sliced", {"1/model.onnx": sliced()})
    with devices() as started, model_server(started, tmp_path, "--front-workers", str(workers)) as served:

        def devices_of_request(x: Array) -> str:
            given = {"name": "x", "shape": x.shape, "datatype": "FP32", "data": x.reshape(-1).tolist()}
            url = f"http://{served.http}/v2/models/sliced/infer"
            answer = httpx.post(url, json={"inputs": [given]}, timeout=60).raise_for_status().json()
            (output,) = answer["outputs"]
            assert output["shape"] == [len(x), 3]
            np.testing.assert_allclose(np.reshape(output["data"], output["shape"]), expected(x), atol=1e-6)
            return str(answer["parameters"]["nnhal_devices"])

        plan_of_all = devices_of_request(rows(2))
        wait_until(lambda: devices_of_request(rows(2)) != plan_of_all, "a plan for these dimensions is used")
        assert devices_of_request(rows(3)) == plan_of_all
