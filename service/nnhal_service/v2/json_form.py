"""Models as the protocol describes them in JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import Message

from nnhal_service.serving.requests.signature import TensorDescription
from nnhal_service.v2.backend import ModelDescription, ModelRepository


def metadata_to_json(description: ModelDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "versions": list(description.versions),
        "platform": description.platform,
        "inputs": _tensors(description.inputs),
        "outputs": _tensors(description.outputs),
    }


def config_to_json(repository: ModelRepository, name: str, version: str) -> dict[str, Any]:
    """The whole configuration of a model. Raises ServingError as ``ModelRepository.config`` does."""
    return message_to_json(repository.config(name, version))


def statistics_to_json(repository: ModelRepository, name: str, version: str) -> dict[str, Any]:
    """The statistics of a model, or without a name of all. Raises ServingError as ``ModelRepository.statistics``."""
    return {"model_stats": [message_to_json(entry) for entry in repository.statistics(name, version)]}


def message_to_json(message: Message) -> dict[str, Any]:
    """A message as a JSON object in Triton's form: proto field names, all fields, and integers as numbers.

    Messages within it that are not set are left out.
    """
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


# A field is a descriptor, which is of one of two classes.
def _field(field: Any, value: Any) -> Any:
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        of = entry.fields_by_name["value"]
        return {str(key): _value(of, value[key]) for key in value}
    if field.is_repeated:
        return [_value(field, item) for item in value]
    return _value(field, value)


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return message_to_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else value
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _tensors(tensors: Iterable[TensorDescription]) -> list[dict[str, Any]]:
    return [
        {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": list(tensor.shape),
            **({"parameters": dict(tensor.parameters)} if tensor.parameters else {}),
        }
        for tensor in tensors
    ]
