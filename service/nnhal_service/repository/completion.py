"""Completing a configuration: what it leaves out is taken from the model, and the rest is checked against the model.

With max_batch_size above 0, dims in a configuration are those of one item: they leave out the first axis of the
model's tensors, which is the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.config_file import PLATFORMS
from nnhal_service.repository.tensors import UNKNOWN, Dims, ModelTensor, type_name
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.reshape import Reshape

_OWN_PLATFORMS = {".onnx": "onnx_onnxv1", ".tflite": "tflite"}
TensorConfig = TypeVar("TensorConfig", wire.ModelInput, wire.ModelOutput)


def complete(
    config: wire.ModelConfig,
    name: str,
    file: str,
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
) -> wire.ModelConfig:
    """Complete the configuration of a model that was read from ``file``. Raises INVALID_ARGUMENT if it does not fit."""
    whole = wire.ModelConfig()
    whole.CopyFrom(config)
    whole.name = name
    whole.backend = config.backend or "nnhal"
    whole.platform = _platform(config.platform, file)
    whole.default_model_filename = config.default_model_filename or file
    if not whole.HasField("version_policy"):
        whole.version_policy.latest.num_versions = 1
    if not whole.instance_group:
        whole.instance_group.add(name=name, count=1, kind=wire.ModelInstanceGroup.KIND_AUTO)
    for tensor in (*inputs, *outputs):
        _require_batch_axis(tensor, config.max_batch_size)
    del whole.input[:], whole.output[:]
    whole.input.extend(_completed("input", config.input, wire.ModelInput, inputs, config.max_batch_size))
    _require_no_states(config)
    entries = _completed("output", config.output, wire.ModelOutput, outputs, config.max_batch_size)
    listed = {entry.name for entry in config.output}
    whole.output.extend(entry for entry in entries if not listed or entry.name in listed)
    for entry, tensor in zip(whole.input, inputs, strict=True):
        if entry.optional and not tensor.optional:
            _refuse(f"input {entry.name!r} is optional, but the model requires it")
        entry.optional = tensor.optional
    return whole


def _require_no_states(config: wire.ModelConfig) -> None:
    states = {state.output_name for state in config.sequence_batching.state}
    for entry in config.output:
        if entry.name in states:
            _refuse(
                f"output {entry.name!r} is the output_name of a state, which clients do not see here: expected it in "
                "one of both; an Identity in the model gives its value another name"
            )


def item_dims(tensor: ModelTensor, max_batch_size: int) -> Dims:
    """Return a tensor's dims as its configuration has them; one unknown dimension if not even the rank is known."""
    if tensor.shape is None:
        return (UNKNOWN,)
    return tensor.shape[1:] if max_batch_size > 0 else tensor.shape


def _platform(given: str, file: str) -> str:
    suffix = file[file.rfind(".") :]
    if given and PLATFORMS[given] != suffix:
        _refuse(f"platform is {given!r}, expected one for {file!r}")
    return given or _OWN_PLATFORMS[suffix]


def _require_batch_axis(tensor: ModelTensor, max_batch_size: int) -> None:
    """Raise INVALID_ARGUMENT if the first axis of a model with batches has a fixed length."""
    if max_batch_size == 0 or tensor.shape is None or tensor.shape[:1] == (UNKNOWN,):
        return
    _refuse(
        f"max_batch_size is {max_batch_size}, but {tensor.name!r} has shape {list(tensor.shape)} in the model, "
        "expected one whose first axis is unknown (-1); max_batch_size 0 is for a model without batches"
    )


def _completed(
    word: str,
    given: Sequence[TensorConfig],
    kind: type[TensorConfig],
    tensors: Sequence[ModelTensor],
    max_batch_size: int,
) -> list[TensorConfig]:
    names = [tensor.name for tensor in tensors]
    by_name = {entry.name: entry for entry in given}
    if len(by_name) < len(given):
        _refuse(f"{word}s {[entry.name for entry in given]}: expected each name once")
    for name in by_name:
        if name not in names:
            _refuse(f"{word} {name!r} is not in the model, expected {', '.join(map(repr, names))}")
    return [
        _completed_tensor(word, by_name.get(tensor.name, kind()), kind, tensor, max_batch_size) for tensor in tensors
    ]


def _completed_tensor(
    word: str, given: TensorConfig, kind: type[TensorConfig], tensor: ModelTensor, max_batch_size: int
) -> TensorConfig:
    where = f"{word} {tensor.name!r}"
    if given.data_type not in (wire.TYPE_INVALID, tensor.data_type):
        _refuse(f"{where} has data_type {type_name(given.data_type)}, expected {type_name(tensor.data_type)}")
    entry = kind()
    entry.CopyFrom(given)
    entry.name, entry.data_type = tensor.name, tensor.data_type
    if tensor.shape == () and list(given.dims) == [1]:  # as Triton has scalars
        entry.reshape.SetInParent()
    if entry.HasField("reshape"):
        _require_reshape(where, entry)
    if given.dims and tensor.shape is not None:
        shape = entry.reshape.shape if entry.HasField("reshape") else given.dims
        _require_dims(where, tuple(shape), tensor, max_batch_size)
    if not given.dims:
        entry.dims.extend(item_dims(tensor, max_batch_size))
    return entry


def _require_reshape(where: str, entry: wire.ModelInput | wire.ModelOutput) -> None:
    dims, shape = tuple(entry.dims), tuple(entry.reshape.shape)
    if not dims or not Reshape(dims, shape).is_valid:
        _refuse(
            f"{where} has dims {list(dims)} and reshape {list(shape)}, expected as many elements in both, and as many "
            "unknown dimensions (-1)"
        )


def seen_by_clients(config: wire.ModelConfig, inputs: Sequence[ModelTensor]) -> list[ModelTensor]:
    """Return the inputs of a model in the shapes in which clients see them, by its complete configuration."""
    batch = (UNKNOWN,) if config.max_batch_size > 0 else ()
    shapes = {entry.name: (*batch, *entry.dims) for entry in config.input if entry.HasField("reshape")}
    return [replace(tensor, shape=shapes.get(tensor.name, tensor.shape)) for tensor in inputs]


def _require_dims(where: str, given: Dims, tensor: ModelTensor, max_batch_size: int) -> None:
    expected = item_dims(tensor, max_batch_size)
    if len(given) == len(expected) and all(
        got == wanted or (wanted == UNKNOWN and got > 0) for got, wanted in zip(given, expected, strict=True)
    ):
        return
    batch = (
        f"with max_batch_size {max_batch_size} dims are without the batch axis"
        if max_batch_size > 0
        else "with max_batch_size 0 dims are the whole shape, the batch axis included"
    )
    _refuse(
        f"{where} has dims {list(given)}, expected {list(expected)}; the model's shape is {list(tensor.shape or ())}, "
        f"and {batch}"
    )


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
