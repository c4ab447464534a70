"""Messages of the protocol as JSON objects, in Triton's form: own field names, all fields, integers as numbers."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message


def message_to_json(message: Message) -> dict[str, Any]:
    """A message as an object; messages within it that are not set are left out."""
    return {
        field.name: _field(field, getattr(message, field.name))
        for field in message.DESCRIPTOR.fields
        if not field.has_presence or message.HasField(field.name)
    }


# A field is a descriptor, of one of the two classes that protobuf has for them.
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
