"""limits.md: settings with their defaults, what each bounds, and what happens beyond it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from importlib import import_module
from typing import Any

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from nnhal_dashboard.settings import DashboardSettings
from nnhal_devices.host.settings import DeviceSettings
from nnhal_hosting.settings import ProcessSettings
from nnhal_service.settings import ServiceSettings
from nnhal_tools.settings import ClientSettings
from tests.reference.declared import strings_below
from tests.reference.markdown import code, number, plain, table

SETTINGS: Mapping[str, type[BaseSettings]] = {
    "Every process that serves": ProcessSettings,
    "The framework": ServiceSettings,
    "A device": DeviceSettings,
    "The dashboard": DashboardSettings,
    "The command": ClientSettings,
}
FIXED = {
    "nnhal.link.channel": ("MAX_MESSAGE_BYTES", "MAX_DESCRIPTORS_PER_MESSAGE"),
    "nnhal_hosting.descriptors": ("MAX_OBJECTS", "ALL_OBJECTS", "MAX_LAUNCHED", "ALL_LAUNCHED"),
    "nnhal.codec.bounds": ("MAX_POOLS", "MAX_ARGUMENTS", "MAX_FENCES", "MAX_ROLES", "MAX_HINTS", "MAX_PINS"),
    "nnhal.types.layout": ("MAX_RANK", "MAX_OPERAND_BYTES"),
    "nnhal.validation.control_flow": ("MAX_DEPTH",),
    "nnhal_devices.host.channels.wiring": ("MAX_BELLS",),
    "nnhal_devices.host.runs.burst": ("MAX_CACHED_POOLS",),
}
"""Limits that no setting changes, by module."""
DESCRIPTORS = {
    "a model with constants": (1, 1, 0),
    "a binding that runs directly, with its run channel": (4, 3, 4),
    "a binding that runs through the framework, with its burst": (4, 3, 3),
    "such a binding with a launched run that waits for a fence": (10, 6, 6),
    "a binding of two steps on two devices, which runs directly": (5, 5, 4),
    "a sequence of a model with one state, after two requests": (5, 4, 0),
}
"""Descriptors that a thing costs in the framework, in the device of its first step, and in the client."""
_PAGE = """# Settings and limits

Every setting of every process, with its default, what it sets or bounds, and what happens beyond it.

- A process reads its options first, then the environment, then takes the default. An empty variable counts as none.
- The option of a setting has its name: `--max-models` is `NNHAL_SERVICE_MAX_MODELS`. Not every setting has an option.
- Sizes are in bytes. A list is JSON in the environment.
- Clients share what is bounded for all of them together ([serve.md](../serve.md)).

{settings}
## Limits that no setting changes

A list of a request that is longer is INVALID_ARGUMENT. Beyond a limit of sessions a call is
RESOURCE_EXHAUSTED_TRANSIENT.

{fixed}

## What things cost in descriptors

Each process raises its limit on open files to the hard one (`ulimit -Hn`) when it starts. Three quarters of them are
for clients. The rest is for connections, files, and what is not counted.

{descriptors}

Inputs of a binding lie in memory of one descriptor, outputs in that of another. A mapping takes none. A burst is closed
while a binding runs directly.
"""


def limits_page() -> str:
    """Return the page. Raises KeyError if a setting or a limit is not described where it is declared."""
    sections = [f"## {title}\n\n{_section(settings)}\n" for title, settings in SETTINGS.items()]
    head = ("thing", "framework", "device", "client")
    return _PAGE.format(
        settings="\n".join(sections),
        fixed=table(("limit", "number"), _fixed()),
        descriptors=table(head, ((name, *map(str, costs)) for name, costs in DESCRIPTORS.items())),
    )


def own_fields(settings: type[BaseSettings]) -> dict[str, FieldInfo]:
    """Return the settings of a process that not every process has."""
    inherited = set() if settings is ProcessSettings else set(ProcessSettings.model_fields)
    return {name: field for name, field in settings.model_fields.items() if name not in inherited}


def _section(settings: type[BaseSettings]) -> str:
    prefix, before = settings.model_config.get("env_prefix", ""), ""
    if settings is ProcessSettings:
        prefix, before = "…_", "`…` is `NNHAL_DEVICE` or `NNHAL_SERVICE`.\n\n"
    said = strings_below(settings)
    rows = []
    for name, field in own_fields(settings).items():
        variable = code(f"{prefix}{name}".upper())
        rows.append((variable, _default(field), _range(field), plain(said[name])))
    return before + table(("setting", "default", "allowed", "what it sets or bounds, and what happens beyond it"), rows)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "the directory of `nnhal up`"
    value: Any = field.default
    if isinstance(value, Enum):
        value = value.value
    if value in (None, "", (), {}):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    return number(value) if isinstance(value, (int, float)) else code(str(value))


def _range(field: FieldInfo) -> str:
    """Return the numbers that a setting may have, such as ``2 to 256``; nothing for other settings."""
    least = most = ""
    for bound in field.metadata:
        match bound:
            case Ge(ge=value):
                least = f"{_number(value)} "
            case Gt(gt=value):
                least = f"above {_number(value)}, "
            case Le(le=value):
                most = f"to {_number(value)}"
    return least + most


def _number(value: Any) -> str:
    return number(float(value))


def _fixed() -> Iterator[tuple[str, str]]:
    for name, constants in FIXED.items():
        module = import_module(name)
        for constant in constants:
            yield plain(strings_below(module)[constant]).rstrip("."), number(getattr(module, constant))
