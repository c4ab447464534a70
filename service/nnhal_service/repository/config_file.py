"""Reading a model's configuration, and refusing what it asks for that this server does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator

from google.protobuf import json_format, text_format

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.config_bounds import MOST_BYTES, require_bounds, require_length
from nnhal_service.repository.source import ModelSource
from nnhal_service.serving.errors import ErrorKind, ServingError

CONFIG_FILE = "config.pbtxt"
CUSTOM_FOLDER = "configs"
_WORDS = {
    re.compile(r"invalid literal for int\(\) with base 10: "): "no integer: ",
    re.compile(r"'[\w-]+' codec can't .*"): "a text that is no Unicode",
    re.compile(r"unhashable type: '\w+'"): "a list or an object, expected a name or a number",
}
"""Messages of Python that protobuf repeats, and what is said in their place."""
BACKENDS = ("nnhal", "onnxruntime", "tensorflowlite")
"""The backends that files may name, so that they serve elsewhere too; all of them run here the same way."""
PLATFORMS = {"onnx_onnxv1": ".onnx", "onnxruntime_onnx": ".onnx", "tflite": ".tflite", "tensorflow_tflite": ".tflite"}
"""The platforms that files may name, with the suffix of their files."""


def read_config(source: ModelSource, name: str, custom: str = "") -> wire.ModelConfig:
    """Read the configuration of a model from ``configs/CUSTOM.pbtxt`` if that exists, else from ``config.pbtxt``.

    It is empty without either. Raises ServingError: INVALID_ARGUMENT if it is malformed, UNSUPPORTED if it asks for
    what this server does not do.
    """
    file = f"{CUSTOM_FOLDER}/{custom}.pbtxt"
    if not custom or f"{custom}.pbtxt" not in source.files(CUSTOM_FOLDER):
        file = CONFIG_FILE
        if file not in source.files(""):
            return wire.ModelConfig()
    content = source.read(file, MOST_BYTES)
    try:
        return _checked(text_format.Parse(content.decode("utf-8-sig"), wire.ModelConfig()), name)
    except text_format.ParseError as error:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{file}: {_in_words(error)}") from error
    except UnicodeDecodeError as error:
        message = f"{file} is not text in UTF-8: {error.reason} at byte {error.start}"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message) from error
    except ValueError as error:
        message = f"{file} has a number that is out of its range, or a text that is not UTF-8"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message) from error
    except RecursionError as error:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{file} is nested too deeply") from error


def config_from_json(text: str, name: str) -> wire.ModelConfig:
    """Parse the configuration that came with a request to load. Raises as ``read_config``."""
    import orjson  # a framework without models starts without it

    require_length(text, "the config of the request")
    try:
        content = orjson.loads(text)  # unlike json, it refuses surrogates, which protobuf fails on with a SystemError
        if not isinstance(content, dict):
            raise ValueError("expected an object of JSON")
        return _checked(json_format.ParseDict(content, wire.ModelConfig()), name)
    except (json_format.ParseError, ValueError) as error:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"the config of the request: {_in_words(error)}") from error
    except RecursionError as error:
        message = "the config of the request: it is nested too deeply"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message) from error


def _in_words(error: Exception) -> str:
    """Return what protobuf says is wrong, without the words of Python's own errors in it."""
    message = str(error)
    for pattern, words in _WORDS.items():
        message = pattern.sub(words, message)
    return message


def _checked(config: wire.ModelConfig, name: str) -> wire.ModelConfig:
    if config.name not in ("", name):
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"name is {config.name!r}, expected {name!r} or nothing")
    require_bounds(config)
    refused = next(_unsupported(config), None)
    if refused:
        raise ServingError(ErrorKind.UNSUPPORTED, refused)
    return config


def _unsupported(config: wire.ModelConfig) -> Iterator[str]:
    """Yield what a configuration asks for that this server does not do, if ignoring it would change answers."""
    if config.backend not in ("", *BACKENDS):
        yield f"backend {config.backend!r} is not supported, expected one of {', '.join(BACKENDS)}, or none"
    if config.platform not in ("", *PLATFORMS):
        yield f"platform {config.platform!r} is not supported, expected one of {', '.join(PLATFORMS)}, or none"
    if config.HasField("ensemble_scheduling"):
        yield "ensemble_scheduling is not supported"
    if config.sequence_batching.iterative_sequence:
        yield "iterative_sequence is not supported"
    if config.response_cache.enable:
        yield "response_cache is not supported"
    if config.model_transaction_policy.decoupled:
        yield "decoupled models are not supported: each request has one response"
    if config.model_repository_agents.agents:
        yield "model_repository_agents are not supported"
    if config.batch_input or config.batch_output:
        yield "batch_input and batch_output are not supported"
    if config.model_operations.op_library_filename or config.cc_model_filenames:
        yield "model_operations and cc_model_filenames are not supported"
    tensors: list[wire.ModelInput | wire.ModelOutput] = [*config.input, *config.output]
    for tensor in tensors:
        if tensor.is_shape_tensor or tensor.is_non_linear_format_io:
            yield f"{tensor.name!r}: is_shape_tensor and is_non_linear_format_io are not supported"
    for entry in config.input:
        if entry.allow_ragged_batch:
            yield f"allow_ragged_batch of {entry.name!r} is not supported"
    for group in config.instance_group:
        if group.passive or group.secondary_devices or group.HasField("rate_limiter"):
            yield "passive, secondary_devices and rate_limiter of an instance_group are not supported"
