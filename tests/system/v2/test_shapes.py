"""Scalars, tensors in another shape than the model's, and the outputs of classifiers, for unmodified clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from nnhal_client import connect
from tests.support.model_server import Devices, Served, model_server
from tests.support.shaped_models import (
    BATCH_ONLY,
    CLASSIFIER,
    FLAT,
    JOINED,
    NARROW,
    OPEN,
    SCALAR,
    SEQUENCE,
    UNTYPED,
    VECTOR,
    classifier,
    write_joined,
    write_shaped_models,
)
from tests.support.tritonclients import Triton

_APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
X = np.arange(4, dtype=np.float32)


@pytest.fixture(scope="module")
def shaped(device_processes: Devices, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    repository = write_shaped_models(tmp_path_factory.mktemp("repository"))
    with model_server(device_processes, repository, "--exit-on-error", "false", "--allow-client-shm") as process:
        yield process


@pytest.fixture(params=["grpc", "http"])
def client(request: pytest.FixtureRequest, shaped: Served) -> Iterator[Triton]:
    with Triton(request.param, _APIS[request.param], getattr(shaped, request.param)) as found:
        yield found


def shapes(client: Triton, model: str) -> dict[str, list[int]]:
    """The shapes of a model's inputs and outputs, by its metadata."""
    shown = client.shown("get_model_metadata", model)
    return {t["name"]: [int(n) for n in t.get("shape", [])] for t in (*shown["inputs"], *shown["outputs"])}


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize("model", [SCALAR, VECTOR])
def test_a_scalar_may_be_given_as_a_vector(client: Triton, model: str, shape: tuple[int, ...]) -> None:
    found = client.infer(model, {"x": X.reshape(1, 4), "s": np.full(shape, 2, np.float32)})
    np.testing.assert_array_equal(found.as_numpy("y"), 2 * X.reshape(1, 4))
    assert found.as_numpy("total").reshape(-1).tolist() == [12]


def test_metadata_and_outputs_have_a_scalar_as_the_configuration_does(client: Triton) -> None:
    inputs = {"x": X.reshape(1, 4), "s": np.ones((1,), np.float32)}
    assert shapes(client, SCALAR) == {"x": [1, 4], "s": [], "y": [1, 4], "total": []}
    assert shapes(client, VECTOR) == {"x": [1, 4], "s": [1], "y": [1, 4], "total": [1]}
    assert client.infer(SCALAR, inputs).as_numpy("total").shape == ()
    assert client.infer(VECTOR, inputs).as_numpy("total").shape == (1,)


def test_other_shapes_of_a_scalar_are_refused(client: Triton) -> None:
    with pytest.raises(InferenceServerException, match="unexpected shape for input 's'"):
        client.infer(SCALAR, {"x": X.reshape(1, 4), "s": np.ones((2,), np.float32)})


def test_clients_see_tensors_in_another_shape(client: Triton) -> None:
    assert shapes(client, FLAT) == {"x": [4], "y": [4, 1]}
    np.testing.assert_array_equal(client.infer(FLAT, {"x": X}).as_numpy("y"), -X.reshape(4, 1))
    with pytest.raises(InferenceServerException, match="unexpected shape for input 'x'"):
        client.infer(FLAT, {"x": X.reshape(2, 2)})


@pytest.mark.parametrize("length", [1, 7])
def test_unknown_dimensions_stay_unknown(client: Triton, length: int) -> None:
    x = np.arange(3 * length, dtype=np.float32).reshape(length, 3)
    assert shapes(client, OPEN) == {"x": [-1, 3], "y": [-1, 3]}
    np.testing.assert_array_equal(client.infer(OPEN, {"x": x}).as_numpy("y"), -x)


def test_dims_narrow_what_the_model_leaves_open(client: Triton) -> None:
    assert shapes(client, NARROW) == {"x": [-1, 3], "y": [-1, 3]}
    assert client.infer(NARROW, {"x": X[:3].reshape(1, 3)}).as_numpy("y").tolist() == [[0, -1, -2]]
    with pytest.raises(InferenceServerException, match=r"input 'x'.* Expected \[-1,3\], got \[1,4\]"):
        client.infer(NARROW, {"x": X.reshape(1, 4)})


def test_an_output_that_the_configuration_leaves_out_is_for_who_names_it(client: Triton) -> None:
    x = -X[:3].reshape(1, 3)
    found = client.infer(NARROW, {"x": x})
    assert found.as_numpy("large") is None
    assert client.infer(NARROW, {"x": x}, outputs=["large"]).as_numpy("large").tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("binary", [True, False])
def test_an_axis_may_have_no_elements(client: Triton, binary: bool) -> None:
    how = {} if client.name == "grpc" else {"binary_data": binary}
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    past = np.zeros((1, 0, 3), np.float32)
    for _ in range(3):
        outputs = [client.api.InferRequestedOutput(name, **how) for name in ("y", "same")]
        inputs = client.inputs({"past": past, "x": x}, **how)
        found = client.client.infer(JOINED, inputs, outputs=outputs)
        np.testing.assert_array_equal(found.as_numpy("y"), np.concatenate([past, x], 1))
        np.testing.assert_array_equal(found.as_numpy("same"), -past)
        past = found.as_numpy("y")


def test_an_input_without_elements_and_an_empty_output_may_be_in_shared_memory(client: Triton) -> None:
    name = f"nnhal_empty_{client.name}_{os.getpid()}"
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    region = shm.create_shared_memory_region(name, name, 256, create_only=True)
    try:
        client.client.register_system_shared_memory(name, name, 256)
        inputs = client.inputs({"past": np.zeros((1, 0, 3), np.float32), "x": x})
        inputs[0].set_shared_memory(name, 0)
        outputs = [client.api.InferRequestedOutput(output) for output in ("y", "same")]
        outputs[0].set_shared_memory(name, x.nbytes, 64)
        outputs[1].set_shared_memory(name, 0, 128)
        found = client.client.infer(JOINED, inputs, outputs=outputs)
        np.testing.assert_array_equal(shm.get_contents_as_numpy(region, np.float32, [1, 2, 3], 64), x)
        assert shape_of(found.get_output("y")) == [1, 2, 3]
        assert shape_of(found.get_output("same")) == [1, 0, 3]
    finally:
        client.client.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(region)


def shape_of(output: Any) -> list[int]:
    """The shape that an answer of either protocol gives."""
    return [int(length) for length in (output["shape"] if isinstance(output, dict) else output.shape)]


def test_the_reference_takes_an_empty_input(device_processes: Devices, tmp_path: Path) -> None:
    alone = Devices({"cpu_ref": device_processes.endpoints["cpu_ref"]}, device_processes.pids)
    given = {"past": np.zeros((1, 0, 3), np.float32), "x": np.ones((1, 2, 3), np.float32)}
    with model_server(alone, write_joined(tmp_path)) as server:
        for name, api in _APIS.items():
            with Triton(name, api, getattr(server, name)) as client:
                np.testing.assert_array_equal(client.infer(JOINED, given).as_numpy("y"), given["x"])
                given_two = {**given, "past": np.ones((1, 1, 3), np.float32)}
                assert client.infer(JOINED, given_two).as_numpy("y").shape == (1, 3, 3)


def test_an_input_of_batches_alone(client: Triton) -> None:
    assert shapes(client, BATCH_ONLY) == {"x": [-1, 1], "y": [-1]}
    found = client.infer(BATCH_ONLY, {"x": X.reshape(4, 1)})
    np.testing.assert_array_equal(found.as_numpy("y"), -X)


def test_a_classifier_answers_with_tensors(client: Triton) -> None:
    x = np.random.default_rng(1).random((2, 4), np.float32)
    session = onnxruntime.InferenceSession(classifier(zips=False).SerializeToString())
    label, probabilities = (np.asarray(value) for value in session.run(None, {"x": x}))
    shown = client.shown("get_model_metadata", CLASSIFIER)
    assert [(t["name"], t["datatype"]) for t in shown["outputs"]] == [("label", "BYTES"), ("probabilities", "FP32")]
    assert shapes(client, CLASSIFIER) == {"x": [-1, 4], "label": [-1], "probabilities": [-1, 3]}
    found = client.infer(CLASSIFIER, {"x": x})
    assert [text.decode() for text in found.as_numpy("label")] == label.tolist()
    np.testing.assert_allclose(found.as_numpy("probabilities"), probabilities, rtol=1e-5)


def test_a_native_client_gets_the_same_tensors(shaped: Served) -> None:
    with connect(shaped.endpoint.directory) as framework, framework.open(CLASSIFIER) as model:
        found = model.run({"x": np.ones((1, 4), np.float32)})
        assert np.asarray(found["probabilities"]).shape == (1, 3)


@pytest.mark.parametrize(("name", "kind"), [(SEQUENCE, "a sequence of tensors"), (UNTYPED, "a value of unknown type")])
def test_what_is_no_tensor_is_refused_by_name(client: Triton, name: str, kind: str) -> None:
    with pytest.raises(InferenceServerException, match=f"'y' is {kind}, for which the protocol has no"):
        client.client.load_model(name)
