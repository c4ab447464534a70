"""From the files of a browser to those of a model: a network, and perhaps a configuration."""

from __future__ import annotations

import json
from pathlib import PurePath

from google.protobuf import json_format, text_format

from nnhal.inference import model_config_pb2

_ENDINGS = (".onnx", ".tflite")
_LONGEST_CONFIG = 1 << 20
_CONFIG_ENDINGS = (".pbtxt", ".json")

GivenFile = tuple[str, bytes]
"""A name and a content; both empty for no file."""


def files_of(network: GivenFile, version: str, config: GivenFile) -> tuple[str, dict[str, bytes]]:
    """Return the configuration as JSON, empty for none, and the files by VERSION/NAME. Raises ValueError."""
    name, content = network
    ending = PurePath(name).suffix.lower()
    if ending not in _ENDINGS:
        raise ValueError(f"file {name!r}, expected a name that ends with {' or '.join(_ENDINGS)}")
    if not content:
        raise ValueError(f"file {name!r} is empty")
    return config_json(*config) if config[0] else "", {f"{version}/model{ending}": content}


def config_json(name: str, content: bytes) -> str:
    """Return a model configuration as JSON. Raises ValueError if it is none."""
    ending = PurePath(name).suffix.lower()
    if ending not in _CONFIG_ENDINGS:
        raise ValueError(f"configuration {name!r}, expected a name that ends with {' or '.join(_CONFIG_ENDINGS)}")
    if len(content) > _LONGEST_CONFIG:
        raise ValueError(f"configuration {name!r} has {len(content)} bytes, expected {_LONGEST_CONFIG} at the most")
    try:
        text = content.decode()
        if ending == ".json":
            json.loads(text)
            return text
        message = text_format.Parse(text, model_config_pb2.ModelConfig())
    except (ValueError, text_format.ParseError) as error:
        raise ValueError(f"configuration {name!r}: {error}") from error
    except RecursionError as error:
        raise ValueError(f"configuration {name!r} is nested too deeply") from error
    return json_format.MessageToJson(message, preserving_proto_field_name=True)
