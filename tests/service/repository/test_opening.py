"""Opening models from files on a device process."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from nnhal.endpoint import Endpoint
from nnhal.errors import DeadObjectError, HalError
from nnhal.inference import model_config_pb2 as wire
from nnhal.types import ErrorStatus
from nnhal_service.partition import PlacementError
from nnhal_service.repository import ControlMode, Opened, Opener, Repository, RepositoryOptions
from nnhal_service.repository import opening as opening_module
from nnhal_service.repository.source import GivenSource
from nnhal_service.runtime import Fleet, LoadedModel
from nnhal_service.serving import Executed, Finished, ServedModel
from nnhal_service.serving.config import ServingConfig
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.client_memory import to_array
from nnhal_service.serving.requests.request import InferenceRequest
from tests.support.repositories import numbers, onnx_file, tflite_file, write
from tests.support.serving import serve_model, shared_loop
from tests.support.signatures import two_signatures
from tests.support.waiting import wait_until

Files = dict[str, bytes]
Open = Callable[..., Opened[ServedModel]]


@pytest.fixture
def fleet(cpu_ref: Endpoint) -> Iterator[Fleet]:
    fleet = Fleet({"cpu_ref": cpu_ref, "gone": Endpoint(cpu_ref.directory / "gone")})
    yield fleet
    fleet.close()


@pytest.fixture
def opened(fleet: Fleet) -> Iterator[Open]:
    """Opens version 1 of a model from its files and the text of its configuration."""
    with ExitStack() as stack:

        def opening(
            files: Files, config: str = "", cache_directory: str = "", serve: Any = serve_model
        ) -> Opened[ServedModel]:
            parsed = text_format.Parse(config, wire.ModelConfig())
            source = GivenSource(files)
            model = Opener(fleet, serve, cache_directory).open("m", 1, parsed, source)
            stack.callback(model.served.close)
            return model

        yield opening


def infer(model: ServedModel, rows: int = 1) -> list[float]:
    with model.infer_and_wait(InferenceRequest({"x": np.repeat(numbers(), rows, 0)})) as response:
        values: list[float] = to_array(response.outputs["y"])[-1].tolist()
        return values


@pytest.mark.parametrize(
    ("files", "platform", "expected"),
    [
        ({"1/model.onnx": onnx_file()}, "onnx_onnxv1", np.tanh(numbers())),
        ({"1/model.tflite": tflite_file()}, "tflite", np.maximum(numbers(), 0)),
    ],
)
def test_a_file_alone_is_enough(opened: Open, files: Files, platform: str, expected: Any) -> None:
    model = opened(files)
    assert model.config.platform == platform
    assert [entry.name for entry in model.config.input] == ["x"]
    assert infer(model.served) == pytest.approx(expected[0].tolist(), abs=1e-5)


def test_a_configuration_says_how_it_is_served(opened: Open) -> None:
    model = opened(
        {"1/net.onnx": onnx_file(), "labels.txt": b"a\nb"},
        'default_model_filename: "net.onnx" max_batch_size: 4 instance_group { count: 2 } dynamic_batching {}'
        'output { name: "y" label_filename: "labels.txt" } input { name: "x" data_type: TYPE_FP32 dims: 8 }',
    )
    assert model.served.config.max_batch_size == 4
    assert model.served.config.instances == 2
    assert model.served.config.batching is not None
    assert model.served.config.labels == {"y": ("a", "b")}
    assert (list(model.config.input[0].dims), list(model.config.output[0].dims)) == ([8], [8])
    assert infer(model.served, rows=3) == pytest.approx(np.tanh(numbers())[0].tolist(), abs=1e-5)


def test_the_configuration_agrees_with_what_the_served_model_says_of_itself(opened: Open) -> None:
    model = opened({"1/model.onnx": onnx_file(shape=("n", "m"))})
    for entry, description in (
        (model.config.input[0], model.served.inputs[0]),
        (model.config.output[0], model.served.outputs[0]),
    ):
        assert (entry.name, tuple(entry.dims)) == (description.name, description.shape)
        assert wire.DataType.Name(entry.data_type) == f"TYPE_{description.datatype}"


def test_a_model_runs_its_warm_up_before_it_is_there(opened: Open) -> None:
    requests: list[InferenceRequest] = []

    class Watched(ServedModel):
        async def infer(self, request: InferenceRequest, client: str = "") -> Any:
            response = await super().infer(request, client)
            requests.append(request)
            return response

    class Untold:
        """An observer that must not be called."""

        def began(self, model_name: str, model_version: str, request: InferenceRequest) -> bool:
            raise AssertionError(f"told of {request}")

        def executed(self, executed: Executed) -> None:
            raise AssertionError(f"told of {executed}")

        def finished(self, finished: Finished) -> None:
            raise AssertionError(f"told of {finished}")

    model = opened(
        {"1/model.onnx": onnx_file(), "warmup/x": numbers().tobytes()},
        'max_batch_size: 4 model_warmup { name: "zeros" count: 2 batch_size: 4'
        ' inputs { key: "x" value { data_type: TYPE_FP32 dims: 8 zero_data: true } } }'
        ' model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: 8 input_data_file: "x" } } }',
        serve=partial(Watched, loop=shared_loop(), samplers=[Untold()]),
    )
    assert [request.inputs["x"].shape for request in requests] == [(4, 8), (4, 8), (1, 8)]
    statistics = model.served.statistics()
    assert (statistics.inference_count, statistics.execution_count, statistics.success.count) == (0, 0, 0)
    assert not statistics.batches
    with pytest.raises(AssertionError, match="told of"):
        infer(model.served)


def test_a_model_that_has_warmed_up_counts_what_comes_then(opened: Open) -> None:
    model = opened(
        {"1/model.onnx": onnx_file()},
        'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 8] zero_data: true } } }',
    )
    assert infer(model.served) == pytest.approx(np.tanh(numbers())[0].tolist(), abs=1e-5)
    assert model.served.statistics().execution_count == 1


@pytest.mark.parametrize(
    ("files", "config", "message"),
    [
        (
            {"1/net.onnx": b""},
            "",
            r"folder has net\.onnx, expected one file of the names model\.onnx and",
        ),
        (
            {"1/model.onnx": b"", "1/model.tflite": b""},
            "",
            r"folder has model\.onnx and model\.tflite, expected",
        ),
        ({"1/model.onnx": b""}, 'default_model_filename: "net.onnx"', "there is no 'net.onnx'"),
        (
            {"1/model.onnx": b""},
            'default_model_filename: "../1/model.onnx"',
            r"is '\.\./1/model\.onnx', expected a name",
        ),
        (
            {"1/model.onnx": b""},
            'default_model_filename: "model.pt"',
            r"expected a name that ends in \.onnx or \.tflite",
        ),
        ({"1/model.onnx": b"\xff"}, "", "1 bytes that are neither an ONNX nor a TFLite model"),
        ({"1/model.tflite": b"TFL3"}, "", "TFLite"),
        (
            {"1/model.onnx": onnx_file()},
            'max_batch_size: 8 input { name: "x" dims: [1, 8] }',
            r"has dims \[1, 8\], expected \[8\]",
        ),
        ({"1/model.onnx": onnx_file(shape=(1, 8))}, "max_batch_size: 8", "max_batch_size is 8, but 'x' has shape"),
        (
            {"1/model.onnx": onnx_file()},
            'parameters { key: "nnhal.devices" value { string_value: "npu" } }',
            "nnhal.devices names 'npu', expected some of cpu_ref, gone",
        ),
        (
            {"1/model.onnx": onnx_file()},
            'parameters { key: "nnhal.placement" value { string_value: "name:node=npu" } }',
            "npu",
        ),
        (
            {"1/model.onnx": onnx_file()},
            'parameters { key: "nnhal.device" value { string_value: "cpu_ref" } }',
            "parameter nnhal.device is not known",
        ),
        (
            {"1/model.onnx": onnx_file()},
            'model_warmup { inputs { key: "x" value { data_type: TYPE_FP32 dims: [1, 7] } } }',
            r"model_warmup 0: 'x' has dims \[1, 7\], expected \[-1, 8\]",
        ),
        ({"1/model.onnx": onnx_file()}, 'output { name: "y" label_filename: "labels.txt" }', "there is no file"),
    ],
)
def test_what_cannot_be_loaded_says_why_and_which_version(
    opened: Open, files: Files, config: str, message: str
) -> None:
    with pytest.raises(ServingError, match="failed to load 'm', version 1: .*" + message) as caught:
        opened(files, config)
    assert caught.value.kind in (ErrorKind.INVALID_ARGUMENT, ErrorKind.NOT_FOUND)


def test_no_device_that_answers_is_an_error_without_paths(opened: Open, fleet: Fleet, cpu_ref: Endpoint) -> None:
    with pytest.raises(
        ServingError, match="failed to load 'm', version 1: no device answers, expected one of gone"
    ) as caught:
        opened({"1/model.onnx": onnx_file()}, 'parameters { key: "nnhal.devices" value { string_value: "gone" } }')
    assert caught.value.kind == ErrorKind.UNAVAILABLE
    assert str(cpu_ref.directory) not in caught.value.message


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (DeadObjectError("/run/npu/device.sock is gone"), ErrorKind.UNAVAILABLE, "a device is gone"),
        (HalError(ErrorStatus.DEVICE_UNAVAILABLE, "off"), ErrorKind.UNAVAILABLE, "off"),
        (HalError(ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT, "full"), ErrorKind.RESOURCE_EXHAUSTED, "full"),
        (HalError(ErrorStatus.INVALID_ARGUMENT, "no"), ErrorKind.INVALID_ARGUMENT, "no"),
        (HalError(ErrorStatus.GENERAL_FAILURE, "broken"), ErrorKind.INTERNAL, "broken"),
        (PlacementError("nobody takes it"), ErrorKind.INVALID_ARGUMENT, "nobody takes it"),
    ],
)
def test_what_devices_say_has_its_kind(
    opened: Open, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: ErrorKind, message: str
) -> None:
    def refuse(*_: object, **__: object) -> LoadedModel:
        raise error

    monkeypatch.setattr(opening_module, "load_model", refuse)
    with pytest.raises(ServingError) as caught:
        opened({"1/model.onnx": onnx_file()})
    assert (caught.value.kind, caught.value.message) == (kind, f"failed to load 'm', version 1: {message}")


def test_a_load_that_fails_after_preparing_leaves_nothing_prepared(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[LoadedModel] = []
    close = LoadedModel.close

    def watch(model: LoadedModel) -> None:
        closed.append(model)
        close(model)

    monkeypatch.setattr(LoadedModel, "close", watch)
    with pytest.raises(ServingError, match="is not in the model"):
        opened({"1/model.onnx": onnx_file()}, 'input { name: "z" }')
    assert len(closed) == 1

    def refuse(name: str, version: str, loaded: LoadedModel, config: ServingConfig) -> ServedModel:
        raise ServingError(ErrorKind.RESOURCE_EXHAUSTED, "no room")

    with pytest.raises(ServingError, match="no room") as caught:
        opened({"1/model.onnx": onnx_file()}, serve=refuse)
    assert caught.value.kind == ErrorKind.RESOURCE_EXHAUSTED
    assert len(closed) == 2


def test_compilations_are_kept_unless_the_model_says_not_to(opened: Open, tmp_path: Path) -> None:
    off = 'parameters { key: "nnhal.caching" value { string_value: "off" } }'
    opened({"1/model.onnx": onnx_file()}, off, str(tmp_path / "cache"))
    assert not (tmp_path / "cache").exists()
    opened({"1/model.onnx": onnx_file()}, "", str(tmp_path / "cache"))
    first = {path.name for path in (tmp_path / "cache").iterdir()}
    opened({"1/model.onnx": onnx_file()}, "", str(tmp_path / "cache"))
    assert first == {path.name for path in (tmp_path / "cache").iterdir()}
    opened({"1/model.onnx": onnx_file("Sigmoid")}, "", str(tmp_path / "cache"))
    assert first and first < {path.name for path in (tmp_path / "cache").iterdir()}


def test_the_configuration_says_which_device_runs_it(cpu_ref: Endpoint, cpu_acc: Endpoint, tmp_path: Path) -> None:
    files = {"1/model.onnx": onnx_file()}
    for device in ("cpu_ref", "cpu_acc"):
        key = f'parameters {{ key: "nnhal.devices" value {{ string_value: "{device}" }} }}'
        write(tmp_path, f"listed_{device}", {**files, "config.pbtxt": key})
        key = f'parameters {{ key: "nnhal.placement" value {{ string_value: "name:node={device}" }} }}'
        write(tmp_path, f"pinned_{device}", {**files, "config.pbtxt": key})
    fleet = Fleet({"cpu_ref": cpu_ref, "cpu_acc": cpu_acc})
    with Repository(RepositoryOptions((tmp_path,)), Opener(fleet, serve_model).open) as repository:
        assert len(repository.index(ready=True)) == 4
        for row in repository.index():
            with repository.model(row.name) as lease:
                response = lease.model.infer_and_wait(InferenceRequest({"x": numbers()}))
                assert response.parameters["nnhal_devices"] == f"{row.name.partition('_')[2]}:1"
                response.release()
    fleet.close()


def test_requests_go_on_while_a_model_is_replaced(fleet: Fleet, tmp_path: Path) -> None:
    write(tmp_path, "m", {"1/model.onnx": onnx_file("Tanh")})
    options = RepositoryOptions((tmp_path,), ControlMode.POLL, poll_seconds=86400.0)
    with Repository(options, Opener(fleet, serve_model).open) as repository:
        with repository.model("m") as lease:
            before = infer(lease.model)
            write(tmp_path, "m", {"2/model.onnx": onnx_file("Neg")})
            polling = threading.Thread(target=repository.poll)
            polling.start()
            while repository.versions("m") != ["2"]:
                assert infer(lease.model) == before
            assert infer(lease.model) == before
        polling.join(30)
        with repository.model("m") as lease:
            assert lease.version == "2"
            assert infer(lease.model) == pytest.approx((-numbers())[0].tolist())


def test_a_model_that_is_unloaded_needs_no_garbage_collector(cpu_ref: Endpoint) -> None:
    fleet = Fleet({"cpu_ref": cpu_ref})
    opener = Opener(fleet, serve_model, "")
    gc.disable()
    try:
        model = opener.open("m", 1, wire.ModelConfig(), GivenSource({"1/model.onnx": onnx_file()}))
        infer(model.served)
        held = weakref.ref(model.served)
        model.served.close()
        del model
        wait_until(lambda: held() is None, "nothing holds it")
    finally:
        gc.enable()
        fleet.close()


@pytest.mark.parametrize("key", ["nnhal.signature", "TF_SIGNATURE_DEF"])
def test_models_of_one_file_serve_its_signatures_side_by_side(opened: Open, key: str) -> None:
    def model(signature: str) -> ServedModel:
        chosen = f'parameters {{ key: "{key}" value {{ string_value: "{signature}" }} }}'
        return opened({"1/model.tflite": two_signatures()}, chosen).served

    def outputs(served: ServedModel, **inputs: Any) -> dict[str, list[Any]]:
        with served.infer_and_wait(InferenceRequest(inputs)) as response:
            return {name: to_array(data).tolist() for name, data in response.outputs.items()}

    a, b = np.full((2, 3), -2, np.float32), np.full((2, 3), 5, np.float32)
    both, one = model("serving_default"), model("magnitude")
    assert outputs(both, a=a, b=b) == {"sum": [[3] * 3] * 2, "same": [[3] * 3] * 2}
    assert outputs(one, values=a) == {"absolute": [[2] * 3] * 2}
    assert outputs(both, a=b, b=b)["sum"] == [[10] * 3] * 2
    with pytest.raises(ServingError, match=r"magnitude.*serving_default"):
        model("other")
