"""nnhal's own part of a configuration: the ``parameters`` whose keys begin with ``nnhal.``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from typing import NoReturn, TypeVar

from google.protobuf import text_format

from nnhal.codec.bounds import MAX_DEVICES, MAX_PINS
from nnhal.inference import model_config_pb2 as wire
from nnhal.types import CACHE_TOKEN_BYTES, ExecutionPreference
from nnhal.whole_numbers import whole_number
from nnhal_service.partition import PIN_FORMS, Fallback, Options, Pin, Strategy
from nnhal_service.repository.config_bounds import MOST_SEQUENCES
from nnhal_service.serving.errors import ErrorKind, ServingError

_PREFIX = "nnhal."
_CACHE_TOKEN = sha256(b"nnhal.repository").digest()
"""The token of models that name none. The cache tells models apart by their content."""
_PREFERENCES = {preference.name.lower(): preference for preference in ExecutionPreference}
_MOST = 2**31 - 1
_SIGNATURE = "signature"
_TF_SIGNATURE = "TF_SIGNATURE_DEF"
_SEQUENCES = "max_sequences"
_SEQUENCES_BY_DEFAULT = 256
_GOAL = "slo"
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?(us|ms|s)")
_UNITS = {"us": 10**3, "ms": 10**6, "s": 10**9}
_SWITCH = {"on": True, "true": True, "off": False, "false": False}
E_ = TypeVar("E_", bound=Enum)


@dataclass(frozen=True, slots=True)
class PlacementParameters:
    """Devices where a model may run, and its partition. Compilations are not kept if ``cache_token`` is empty."""

    devices: tuple[str, ...] = ()
    options: Options = field(default_factory=Options)
    cache_token: bytes = _CACHE_TOKEN
    signature: str | None = None
    """The entry point of a file that names several."""


def placement_parameters(config: wire.ModelConfig) -> PlacementParameters:
    """Decode nnhal's parameters of a configuration. Raises INVALID_ARGUMENT if a key is unknown or a value wrong."""
    given = {
        key.removeprefix(_PREFIX): parameter.string_value.strip()
        for key, parameter in config.parameters.items()
        if key.startswith(_PREFIX)
    }
    unknown = sorted(given.keys() - _KEYS)
    if unknown:
        _refuse(_PREFIX + unknown[0], "is not known", ", ".join(_PREFIX + key for key in sorted(_KEYS)))
    options = Options(
        strategy=_member(given, "partitioner", Strategy, Strategy.LEAST_TIME),
        pins=pins_of(given.get("placement", "")),
        min_nodes_per_partition=_count(given, "min_nodes_per_partition"),
        fallback=_member(given, "fallback", Fallback, Fallback.ALLOW),
        preference=_choice(given, "preference", _PREFERENCES, ExecutionPreference.FAST_SINGLE_ANSWER),
        relaxed=_choice(given, "relaxed", _SWITCH, False),
    )
    devices = tuple(name for name in re.split(r"[,\s]+", given.get("devices", "")) if name)
    if "devices" in given and not devices:
        _refuse("nnhal.devices", "names none", "names of devices with commas between them")
    if len(devices) > MAX_DEVICES:
        _refuse("nnhal.devices", f"names {len(devices)}", f"at most {MAX_DEVICES}")
    return PlacementParameters(devices, options, _token(given), _signature(config, given))


def _signature(config: wire.ModelConfig, given: Mapping[str, str]) -> str | None:
    """The entry point by nnhal's parameter, or by that of Triton's backend for TensorFlow."""
    named = given.get(_SIGNATURE, "")
    if not named and _TF_SIGNATURE in config.parameters:
        named = config.parameters[_TF_SIGNATURE].string_value.strip()
    return named or None


def most_sequences(config: wire.ModelConfig) -> int:
    """Return how many sequences a model may have, with those that wait for others to end.

    Without nnhal's parameter they are MOST_SEQUENCES for a strategy that lets sequences wait, else 256. Raises
    INVALID_ARGUMENT for anything other than a number up to MOST_SEQUENCES.
    """
    key = _PREFIX + _SEQUENCES
    given = config.parameters[key].string_value.strip() if key in config.parameters else ""
    if not given:
        return MOST_SEQUENCES if config.sequence_batching.oldest.max_candidate_sequences else _SEQUENCES_BY_DEFAULT
    number = whole_number(given, MOST_SEQUENCES)
    if not number:
        _refuse(key, f"is {given[:40]!r}", f"a number from 1 to {MOST_SEQUENCES}")
    return number


def latency_goal_ns(config: wire.ModelConfig) -> int:
    """Return within which time 99 % of a model's requests are to be answered, in nanoseconds; 0 without a goal.

    Raises INVALID_ARGUMENT.
    """
    key = _PREFIX + _GOAL
    given = config.parameters[key].string_value.strip() if key in config.parameters else ""
    if not given:
        return 0
    found = _TIME.fullmatch(given)
    goal_ns = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not goal_ns:
        _refuse(key, f"is {given[:40]!r}", "a time such as '20 ms', '1.5 s' or '800 us'")
    return goal_ns


def set_placement(config: wire.ModelConfig, pins: Sequence[Pin], devices: Sequence[str]) -> None:
    """Have a configuration keep these pins and no others; over these devices, if some are given."""
    for key, value in (("placement", text_of(pins)), ("devices", ", ".join(devices))):
        if value:
            config.parameters[_PREFIX + key].string_value = value
    if not pins:
        config.parameters.pop(_PREFIX + "placement", None)


def placement_lines(config: wire.ModelConfig) -> str:
    """The lines of a configuration file that have the pins and the devices of a configuration; none without either."""
    lines = wire.ModelConfig()
    for key in (_PREFIX + "placement", _PREFIX + "devices"):
        if key in config.parameters:
            lines.parameters[key].string_value = config.parameters[key].string_value
    return text_format.MessageToString(lines, as_utf8=True)


_KEYS = {
    _SEQUENCES,
    _GOAL,
    _SIGNATURE,
    "devices",
    "placement",
    "partitioner",
    "fallback",
    "min_nodes_per_partition",
    "preference",
    "relaxed",
    "caching",
    "cache_token",
}
T = TypeVar("T")


def _choice(given: Mapping[str, str], key: str, values: Mapping[str, T], default: T) -> T:
    text = given.get(key)
    if text is None:
        return default
    if text.lower() not in values:
        _refuse(_PREFIX + key, f"is {text!r}", "one of " + ", ".join(values))
    return values[text.lower()]


def _member(given: Mapping[str, str], key: str, kind: type[E_], default: E_) -> E_:
    return _choice(given, key, {member.value: member for member in kind}, default)


def _count(given: Mapping[str, str], key: str) -> int:
    text = given.get(key, "1")
    number = whole_number(text, _MOST)
    if not number:
        _refuse(_PREFIX + key, f"is {text[:40]!r}", f"a number from 1 to {_MOST}")
    return number


def _token(given: Mapping[str, str]) -> bytes:
    if not _choice(given, "caching", _SWITCH, True):
        return b""
    text = given.get("cache_token")
    if text is None:
        return _CACHE_TOKEN
    if not re.fullmatch(f"[0-9a-fA-F]{{{2 * CACHE_TOKEN_BYTES}}}", text):
        _refuse("nnhal.cache_token", f"is {text!r}", f"{2 * CACHE_TOKEN_BYTES} hexadecimal digits")
    return bytes.fromhex(text)


def _refuse(key: str, got: str, expected: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, f"parameter {key} {got}, expected {expected}")


_ENTRY = re.compile(r"(?:\\[;\n]|[^;\n])+")
_KINDS = ("name", "op", "index")


def pins_of(text: str) -> tuple[Pin, ...]:
    r"""Parse pins. ``\;`` stands for a ``;`` in a name, and so for a line end. Raises INVALID_ARGUMENT."""
    pins = []
    entries = [entry for entry in _ENTRY.findall(text) if entry.strip()]
    if len(entries) > MAX_PINS:
        message = f"parameter nnhal.placement has {len(entries)} pins, expected at most {MAX_PINS}"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
    for entry in entries:
        match, _, device = (part.strip() for part in entry.rpartition("="))
        kind, _, pattern = match.partition(":")
        if not (kind in _KINDS and pattern and device):
            raise ServingError(
                ErrorKind.INVALID_ARGUMENT,
                f"parameter nnhal.placement has {entry.strip()!r}, expected MATCH=DEVICE with ';' between; MATCH is "
                f"{PIN_FORMS}",
            )
        pins.append(Pin(re.sub(r"\\([;\n])", r"\1", match), device))
    return tuple(pins)


def text_of(pins: Sequence[Pin]) -> str:
    """Return the text from which ``pins_of`` makes the same pins."""
    return "; ".join(f"{_written(pin.match)}={pin.device}" for pin in pins)


def _written(match: str) -> str:
    if match[-1:].isspace():  # it would be taken for space around the entry
        match = f"{match[:-1]}[{match[-1]}]"
    return re.sub(r"([;\n])", r"\\\1", match)
