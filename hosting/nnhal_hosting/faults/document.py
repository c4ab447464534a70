"""A file of faults: read and checked, with what is wrong in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from nnhal.errors import NnhalError
from nnhal.given_files import MOST_TEXT_BYTES, read_given_text, read_given_toml, without_version
from nnhal_hosting.faults.kinds import (
    AnswerFault,
    CacheFault,
    DeathFault,
    DelayFault,
    ErrorFault,
    FenceFault,
    HangFault,
    MemoryFault,
    ShapesFault,
    ShrunkSramFault,
    SlowClockFault,
    ValuesFault,
    WithdrawnFault,
)

VERSION = 1
"""What a document may say of its form. It grows with a change that nnhal of before must not misread."""
MAX_FAULTS = 256
"""Faults that a device has at a time."""

Fault = Annotated[
    AnswerFault
    | CacheFault
    | DeathFault
    | DelayFault
    | ErrorFault
    | FenceFault
    | HangFault
    | MemoryFault
    | ShapesFault
    | ShrunkSramFault
    | SlowClockFault
    | ValuesFault
    | WithdrawnFault,
    Field(discriminator="what"),
]


class FaultDocumentError(NnhalError):
    """Faults that cannot be read, or are not valid."""


class FaultDocument(BaseModel):
    """Some faults, in the order in which a call meets them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fault: tuple[Fault, ...] = Field(default=(), max_length=MAX_FAULTS)

    @model_validator(mode="after")
    def _distinct(self) -> FaultDocument:
        names = [fault.name for fault in self.fault if fault.name]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"got the name {twice[0]!r} more than once, expected distinct names")
        return self

    def of(self, device: str) -> FaultDocument:
        return FaultDocument(fault=tuple(fault for fault in self.fault if fault.is_about(device)))

    def of_each_start(self) -> FaultDocument:
        """Only the faults that a device has again when it is started again."""
        return FaultDocument(fault=tuple(fault for fault in self.fault if fault.every_start))

    def as_json(self) -> str:
        """The document for a device: only what was given."""
        return self.model_dump_json(exclude_unset=True)


def read_faults_file(path: Path) -> FaultDocument:
    """Read a file: TOML, or JSON if its name ends so. Raises FaultDocumentError."""
    try:
        if path.suffix == ".json":
            return _read_json(read_given_text(path, "faults"), f"{path}: ")
        given = read_given_toml(path, "faults")
    except OSError as error:
        raise FaultDocumentError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise FaultDocumentError(str(error)) from error
    return _checked(given, f"{path}: ")


def read_document(text: str) -> FaultDocument:
    """Read JSON. Raises FaultDocumentError."""
    if len(text) > MOST_TEXT_BYTES:
        raise FaultDocumentError(f"faults of {len(text)} characters, at most {MOST_TEXT_BYTES} are allowed")
    return _read_json(text, "")


def _read_json(text: str, place: str) -> FaultDocument:
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise FaultDocumentError(f"{place}the faults are no JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise FaultDocumentError(
            f"{place}the faults are no JSON that is read: too deep, or a number is too long"
        ) from error
    return _checked(given, place)


def _checked(given: object, place: str) -> FaultDocument:
    try:
        if isinstance(given, dict):
            given = without_version(given, VERSION, f"{place}faults")
        return FaultDocument.model_validate(given)
    except ValidationError as error:
        raise FaultDocumentError(place + _in_words(error, given)) from None
    except ValueError as error:
        raise FaultDocumentError(str(error)) from None


def _in_words(error: ValidationError, given: object) -> str:
    """The first thing that is wrong, and where."""
    problem = error.errors(include_url=False)[0]
    where: list[str] = []
    parts = list(problem["loc"])
    if parts[:1] == ["fault"] and len(parts) > 1:
        number = parts[1]
        where.append(f"fault {int(number) + 1}{_name(given, int(number))}")
        parts = parts[3:]  # without the word of ``what``, by which the class was found
    where += [str(part) for part in parts]
    expected = problem["msg"].removeprefix("Value error, ")
    match problem["type"]:
        case "value_error":
            problem_words = expected
        case "extra_forbidden":
            problem_words = "is unknown; a fault of this kind has no such field"
        case "missing":
            problem_words = "is missing"
        case "union_tag_invalid" | "union_tag_not_found":
            problem_words = f"what: got {_what(problem['input'])}, expected {_kinds()}"
        case _:
            problem_words = f"got {problem['input']!s:.80}, expected: {expected[:1].lower()}{expected[1:]}"
    return ": ".join([", ".join(where), problem_words] if where else [problem_words])


def _name(given: object, number: int) -> str:
    try:
        name = given["fault"][number].get("name")  # type: ignore[index]
    except (TypeError, KeyError, IndexError, AttributeError):
        return ""
    return f" ({name:.80})" if isinstance(name, str) and name else ""


def _what(given: Any) -> str:
    return repr(given.get("what", "nothing")) if isinstance(given, Mapping) else f"{given!r:.40}"


def _kinds() -> str:
    schema = FaultDocument.model_json_schema()
    return ", ".join(sorted(schema["properties"]["fault"]["items"]["discriminator"]["mapping"]))
