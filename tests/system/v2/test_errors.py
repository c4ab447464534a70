"""Refusals with their status and words, by both protocols; and that no error tells where files lie."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.support.model_server import Served
from tests.support.repositories import numbers, write
from tests.support.tritonclients import Triton, status_of

Call = Callable[[Triton], Any]
FOUR = np.ones(4, np.float32)
PATHS = re.compile(r"(/tmp|/proc|/usr|/root|/home|site-packages|\.py\b|line \d+)")


def with_shape(shape: list[int], datatype: str = "FP32", model: str = "tanh") -> Call:
    """An inference whose input has another shape than it says."""

    def call(triton: Triton) -> Any:
        tensor = triton.api.InferInput("x", [1, 8], "FP32").set_data_from_numpy(numbers())
        tensor.set_shape(shape)
        return triton.client.infer(model, [tensor])

    return call


def register(name: str, key: str, size: int = 8) -> Call:
    return lambda triton: triton.client.register_system_shared_memory(name, key, size)


def infer(model: str, *outputs: str, **arrays: Any) -> Call:
    return lambda triton: triton.infer(model, arrays, outputs)


CASES: dict[str, tuple[Call, str, str, str]] = {
    "an unknown model": (infer("nobody", x=numbers()), "NOT_FOUND", "404", "unknown model: 'nobody'"),
    "an unknown version": (
        lambda triton: triton.infer("tanh", {"x": numbers()}, model_version="9"),
        "NOT_FOUND",
        "404",
        "'tanh' version 9 is not found",
    ),
    "a version that is no number": (
        lambda triton: triton.infer("tanh", {"x": numbers()}, model_version="new"),
        "INVALID_ARGUMENT",
        "400",
        "expected a positive number",
    ),
    "metadata of an unknown model": (
        lambda triton: triton.client.get_model_metadata("nobody"),
        "NOT_FOUND",
        "404",
        "nobody",
    ),
    "configuration of an unknown model": (
        lambda triton: triton.client.get_model_config("nobody"),
        "NOT_FOUND",
        "404",
        "nobody",
    ),
    "statistics of an unknown model": (
        lambda triton: triton.client.get_inference_statistics("nobody"),
        "NOT_FOUND",
        "404",
        "nobody",
    ),
    "loading an unknown model": (
        lambda triton: triton.client.load_model("nobody"),
        "NOT_FOUND",
        "404",
        "failed to load 'nobody'",
    ),
    "an unexpected input": (
        infer("pair", a=FOUR, c=FOUR),
        "INVALID_ARGUMENT",
        "400",
        "unexpected inference input 'c' for model 'pair'",
    ),
    "a missing input": (infer("pair", a=FOUR), "INVALID_ARGUMENT", "400", "expected 2 inputs but got 1 inputs"),
    "an unexpected output": (
        infer("pair", "product", a=FOUR, b=FOUR),
        "INVALID_ARGUMENT",
        "400",
        "unexpected inference output 'product' for model 'pair'",
    ),
    "another datatype": (
        infer("tanh", x=numbers().astype(np.float64)),
        "INVALID_ARGUMENT",
        "400",
        "data-type is 'FP64', but model 'tanh' expects 'FP32'",
    ),
    "another shape": (
        infer("tanh", x=np.zeros((1, 9), np.float32)),
        "INVALID_ARGUMENT",
        "400",
        "unexpected shape for input 'x' for model 'tanh'. Expected [-1,8], got [1,9].",
    ),
    "too large a batch": (
        infer("tanh", x=np.zeros((9, 8), np.float32)),
        "INVALID_ARGUMENT",
        "400",
        "inference request batch-size must be <= 8 for 'tanh'",
    ),
    "fewer bytes than the shape says": (with_shape([2, 8]), "INVALID_ARGUMENT", "400", "input 'x' for model 'tanh'"),
    "more bytes than the shape says": (with_shape([1, 4]), "INVALID_ARGUMENT", "400", "input 'x' for model 'tanh'"),
    "a negative axis": (with_shape([-1, 8]), "INVALID_ARGUMENT", "400", ""),
    "a shape beyond all memory": (with_shape([2**40, 2**40]), "INVALID_ARGUMENT", "400", ""),
    "strings that are no UTF-8": (
        infer("echo_bytes", x=np.array([[b"a", b"\xff", b"", b""]], object)),
        "INVALID_ARGUMENT",
        "400",
        "element 1 of input 'x' for model 'echo_bytes' is not UTF-8 from byte 0 on, expected strings",
    ),
    "an unknown region": (
        lambda triton: triton.client.get_system_shared_memory_status("nobody"),
        "NOT_FOUND",
        "404",
        "Unable to find system shared memory region: 'nobody'",
    ),
    "a key that is no file": (
        register("r", "nobody"),
        "INVALID_ARGUMENT",
        "400",
        "Unable to open shared memory region: 'nobody'",
    ),
    "a key that leaves the folder": (register("r", "../null"), "INVALID_ARGUMENT", "400", "Unable to open"),
    "a reserved region": (
        register("triton_python_backend_shm_region_1", "k"),
        "INVALID_ARGUMENT",
        "400",
        "that do not begin with",
    ),
    "a trace level that there is not": (
        lambda triton: triton.client.update_trace_settings(settings={"trace_level": ["ALL"]}),
        "INVALID_ARGUMENT",
        "400",
        "trace_level",
    ),
    "a log setting that there is not": (
        lambda triton: triton.client.update_log_settings({"log_everything": True}),
        "INVALID_ARGUMENT",
        "400",
        "log_everything",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_has_a_status_and_says_what_is_wrong(triton: Triton, case: str) -> None:
    call, by_grpc, by_http, words = CASES[case]
    with pytest.raises(InferenceServerException) as caught:
        call(triton)
    assert status_of(caught.value) == (by_grpc if triton.name == "grpc" else by_http)
    assert words in caught.value.message()
    assert not PATHS.search(caught.value.message())


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"1/model.onnx": b"no model"},
        {"1/model.tflite": b"no model"},
        {"1/model.onnx": b"", "1/model.tflite": b""},
        {"config.pbtxt": "max_batch_size: many"},
        {"config.pbtxt": 'name: "another"', "1/model.onnx": b"no model"},
        {"config.pbtxt": 'backend: "tensorrt"', "1/model.onnx": b"no model"},
    ],
    ids=["nothing", "onnx", "tflite", "both", "configuration", "name", "backend"],
)
def test_models_that_cannot_be_loaded_say_why_and_not_where(
    triton: Triton, served: Served, files: dict[str, bytes | str], request: pytest.FixtureRequest
) -> None:
    name = "bad_" + re.sub(r"\W", "_", request.node.name[-20:])
    write(served.repository, name, files).mkdir(exist_ok=True)
    with pytest.raises(InferenceServerException) as caught:
        triton.client.load_model(name)
    message = caught.value.message()
    assert f"failed to load '{name}'" in message
    assert not PATHS.search(message)
    assert str(served.repository) not in message
    rows = triton.shown("get_model_repository_index")
    (row,) = [row for row in (rows["models"] if triton.name == "grpc" else rows) if row["name"] == name]
    assert str(served.repository) not in row.get("reason", "")
    assert status_of(caught.value) in ("INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED", "400", "404", "501")
    assert not triton.client.is_model_ready(name)
    assert triton.client.is_server_ready()  # what served before serves on
    triton.client.unload_model(name)
