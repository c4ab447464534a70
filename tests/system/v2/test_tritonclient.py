"""tritonclient, unmodified: what the server and its models say of themselves, and the repository."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from nnhal.inference.datatypes import DATATYPES
from tests.support.model_server import Served
from tests.support.repositories import numbers, onnx_file, write
from tests.support.served_models import echo
from tests.support.tritonclients import Triton, status_of

OVERRIDE = {"max_batch_size": 2, "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [8]}]}


def rows_of(triton: Triton) -> list[dict[str, str]]:
    index = triton.shown("get_model_repository_index")
    rows: list[dict[str, str]] = index["models"] if triton.name == "grpc" else index
    return rows


def states(triton: Triton, model: str) -> set[tuple[str, str]]:
    return {(row.get("version", ""), row["state"]) for row in rows_of(triton) if row["name"] == model}


def test_the_server_lives_and_is_ready(triton: Triton) -> None:
    assert triton.client.is_server_live()
    assert triton.client.is_server_ready()


def test_a_model_is_ready_by_version_and_without(triton: Triton) -> None:
    assert triton.client.is_model_ready("pair")
    assert triton.client.is_model_ready("pair", "3")
    assert not triton.client.is_model_ready("pair", "2")
    assert not triton.client.is_model_ready("nobody")


def test_the_server_names_the_extensions_that_it_honours(triton: Triton) -> None:
    metadata = triton.shown("get_server_metadata")
    assert metadata["name"] == "nnhal"
    assert {"classification", "model_repository", "system_shared_memory", "statistics"} <= set(metadata["extensions"])
    assert "cuda_shared_memory" not in metadata["extensions"]


@pytest.mark.parametrize("datatype", DATATYPES)
def test_a_model_says_what_it_takes_and_gives(triton: Triton, datatype: str) -> None:
    metadata = triton.shown("get_model_metadata", echo(datatype))
    assert metadata["versions"] == ["1"]
    for tensor, name in ((metadata["inputs"][0], "x"), (metadata["outputs"][0], "y")):
        assert (tensor["name"], tensor["datatype"]) == (name, datatype)
        assert [int(axis) for axis in tensor["shape"]] == [-1, 4]


def test_a_configuration_is_complete(triton: Triton) -> None:
    config = triton.shown("get_model_config", "tanh")
    config = config.get("config", config)
    assert (config["name"], int(config["max_batch_size"])) == ("tanh", 8)
    (tensor,) = config["input"]
    assert (tensor["name"], tensor["data_type"], [int(axis) for axis in tensor["dims"]]) == ("x", "TYPE_FP32", [8])


def test_statistics_count_what_ran_and_what_failed(triton: Triton) -> None:
    def counts() -> tuple[int, int, int]:
        (model,) = triton.shown("get_inference_statistics", "pair", "3")["model_stats"]
        stats = model["inference_stats"]
        success, fail = (int(stats.get(key, {}).get("count", 0)) for key in ("success", "fail"))
        return int(model.get("inference_count", 0)), success, fail

    ones = np.ones(4, np.float32)
    ran, success, failed = counts()
    triton.infer("pair", {"a": ones, "b": ones}, model_version="3")
    with pytest.raises(InferenceServerException):
        triton.infer("pair", {"a": ones, "b": np.ones(5, np.float32)}, model_version="3")
    assert counts() == (ran + 1, success + 1, failed + 1)


def test_statistics_without_a_name_are_of_all_models(triton: Triton) -> None:
    named = {(entry["name"], entry["version"]) for entry in triton.shown("get_inference_statistics")["model_stats"]}
    assert {("pair", "3"), ("tanh", "1"), ("powers", "1")} <= named


def test_a_model_that_comes_is_listed_loaded_used_and_unloaded(triton: Triton, served: Served) -> None:
    name = f"comes_{triton.name}"
    write(served.repository, name, {"1/model.onnx": onnx_file("Relu")})
    assert not triton.client.is_model_ready(name)
    triton.client.load_model(name)
    assert states(triton, name) == {("1", "READY")}
    assert (triton.infer(name, {"x": numbers()}).as_numpy("y") == np.maximum(numbers(), 0)).all()
    triton.client.unload_model(name)
    assert not triton.client.is_model_ready(name)
    assert "READY" not in {state for _, state in states(triton, name)}
    with pytest.raises(InferenceServerException) as caught:
        triton.infer(name, {"x": numbers()})
    assert status_of(caught.value) in ("UNAVAILABLE", "NOT_FOUND", "503", "404")


def test_a_model_is_loaded_with_another_configuration(triton: Triton, served: Served) -> None:
    name = f"configured_{triton.name}"
    write(served.repository, name, {"1/model.onnx": onnx_file()})
    triton.client.load_model(name, config=json.dumps(OVERRIDE))
    config = triton.shown("get_model_config", name)
    assert int(config.get("config", config)["max_batch_size"]) == 2
    with pytest.raises(InferenceServerException, match="batch-size must be <= 2"):
        triton.infer(name, {"x": np.zeros((3, 8), np.float32)})
    triton.client.unload_model(name)


def test_a_model_is_loaded_from_files_of_the_request(triton: Triton, served: Served) -> None:
    name = f"sent_{triton.name}"
    write(served.repository, name, {"1/model.onnx": onnx_file("Tanh")})
    given = json.dumps({"max_batch_size": 0})
    triton.client.load_model(name, config=given, files={"file:7/model.onnx": onnx_file("Neg")})
    assert triton.shown("get_model_metadata", name)["versions"] == ["7"]
    assert (triton.infer(name, {"x": numbers()}).as_numpy("y") == -numbers()).all()
    triton.client.load_model(name)
    assert triton.shown("get_model_metadata", name)["versions"] == ["1"]
    triton.client.unload_model(name)


def test_a_model_that_cannot_be_loaded_leaves_the_one_that_is_served(triton: Triton, served: Served) -> None:
    name = f"broken_{triton.name}"
    folder = write(served.repository, name, {"1/model.onnx": onnx_file("Neg")})
    triton.client.load_model(name)
    (folder / "1/model.onnx").write_bytes(b"no model")
    with pytest.raises(InferenceServerException, match=f"failed to load '{name}'"):
        triton.client.load_model(name)
    assert (triton.infer(name, {"x": numbers()}).as_numpy("y") == -numbers()).all()
    triton.client.unload_model(name)
    (folder / "1/model.onnx").write_bytes(onnx_file("Neg"))


def test_trace_settings_are_told(triton: Triton) -> None:
    shown = triton.shown("get_trace_settings")
    level = shown["settings"]["trace_level"]["value"] if triton.name == "grpc" else shown["trace_level"]
    assert level == ["OFF"]
