"""Conditions of faults."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from nnhal.device_calls import EXECUTE, METHODS, PREPARE

_GROUPS = {"execute": EXECUTE, "prepare": PREPARE}
MOST_SECONDS = 24 * 3600.0
_SIZE = TypeAdapter(ByteSize)


def methods_of(pattern: str) -> frozenset[str]:
    """The methods that a pattern means. Raises ValueError if there are none."""
    found = _GROUPS.get(pattern) or tuple(
        name for name in METHODS if fnmatchcase(name, pattern) or fnmatchcase(name.partition(".")[2], pattern)
    )
    if not found:
        raise ValueError(
            f"got method {pattern!r}, expected execute, prepare, or a call such as {METHODS[0]} or Channel.Burst, with "
            "* for any characters"
        )
    return frozenset(found)


def _several(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Patterns = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], BeforeValidator(_several)]
"""One pattern or several; ``*`` and ``?`` stand for any characters and any one."""


def _as_texts(value: object) -> object:
    given = value if isinstance(value, list | tuple) else (value,)
    return tuple(map(_as_text, given))


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"got {value!s:.40}, expected the number of a layer from 0 on, or a pattern of names or types")
    return str(value)


Layers = Annotated[Patterns, BeforeValidator(_as_texts, json_schema_input_type=int | str | list[int | str])]
"""Patterns of layers. A pattern that is a number may be given as a number."""


def _as_bytes(value: object) -> int:
    try:
        if isinstance(value, int | str) and not isinstance(value, bool):
            return int(_SIZE.validate_python(value))
    except ValidationError:
        pass
    raise ValueError(f"got {value!s:.40}, expected a number of bytes, or a text such as 240KiB")


Size = Annotated[int, BeforeValidator(_as_bytes, json_schema_input_type=int | str)]
"""Bytes, as a number or as a text with a unit."""


class Condition(BaseModel):
    """Condition of a fault: each time that a call meets all of this."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(default="", max_length=100)
    """The fault's name in logs, counters and messages; by default its kind and its number."""

    device: Patterns = ("*",)
    """Names of devices: the last parts of their directories."""

    method: Patterns = ("execute",)
    """Calls: ``execute`` is every way to execute, ``prepare`` every way to prepare, ``*`` is all."""

    operation: Patterns = ()
    """Types of the HAL's operations: the model of the execution or preparation has one of them."""

    model: Patterns = ()
    """Fingerprints of models, as logs of injected faults show them. For executions and preparations."""

    session: Patterns = ()
    """Ids of sessions as in ``nnhal show sessions``, such as ``s3``, or the names that clients give themselves."""

    nth: int = Field(default=0, ge=0, le=10**9)
    """Only the n-th call that meets the rest, counted from 1; 0 for any."""

    every: int = Field(default=0, ge=0, le=10**9)
    """Only each n-th call that meets the rest; 0 for any."""

    times: int = Field(default=0, ge=0, le=10**9)
    """At most so often; 0 for no limit."""

    probability: float = Field(default=1.0, gt=0.0, le=1.0)
    """The probability of the fault in each call that meets the rest."""

    seed: int = Field(default=0, ge=0, lt=2**63)
    """The seed of all random choices: the same calls have the same faults again."""

    after_s: float = Field(default=0.0, ge=0.0, le=MOST_SECONDS)
    """Seconds from setting the fault until it may happen."""

    for_s: float = Field(default=0.0, ge=0.0, le=MOST_SECONDS)
    """Seconds for which it may happen after that; 0 for no end."""

    every_start: bool = False
    """True if a device that is started again has the fault again. Otherwise only the first process has it."""

    ACTS_IN: ClassVar[tuple[str, ...]] = METHODS
    """The calls that a fault of this kind can act in."""

    @model_validator(mode="after")
    def _known_methods(self) -> Condition:
        for pattern in self.method:
            methods_of(pattern)
        if not self.methods:
            raise ValueError(f"got method {', '.join(self.method)}, expected one of {', '.join(self.ACTS_IN)}")
        if self.nth and self.every:
            raise ValueError(f"got nth {self.nth} and every {self.every}, expected one of them")
        return self

    @property
    def methods(self) -> frozenset[str]:
        """The methods that it is about."""
        return frozenset().union(*map(methods_of, self.method)).intersection(self.ACTS_IN)

    def is_about(self, device: str) -> bool:
        """Return whether it is about a device of this name."""
        return any(fnmatchcase(device, pattern) for pattern in self.device)


def device_of(directory: Path) -> str:
    """The name of the device that serves in a directory."""
    return directory.name
