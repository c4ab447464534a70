"""commands.md: every command of ``nnhal`` with its arguments and options."""

from __future__ import annotations

import argparse
import inspect
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nnhal_dashboard.__main__ import parser as dashboard_parser
from nnhal_devices.__main__ import parser as device_parser
from nnhal_service.options import parser as serve_parser
from nnhal_tools.cli.app import COMMANDS, GROUP_OF, command_of, plug_ins
from nnhal_tools.cli.watched import USAGE as WATCHED_USAGE
from nnhal_tools.health.command import USAGE as HEALTH_USAGE
from nnhal_tools.up.drivers import drivers_of_nnhal
from tests.reference.markdown import code, table

ROOT = Path(__file__).parents[2]
_DISTRIBUTION = "nnhal"
_USAGES = {"health": HEALTH_USAGE, "watched": WATCHED_USAGE}
"""Commands that read their words by hand."""
_HEAD = ("option", "value", "default", "what it does")
_PAGE = """# Commands

The command `nnhal` is in `.venv/bin`. Each command has `--help`, with what stands here. The examples run in the root of
this repository. `examples/mobilenet` has a network with the shape of MobileNet V2 and random weights (`model.tflite`),
an image for it, and the part of it that is in 8 bits (`body.tflite`).

{list}

{commands}

## What is installed

`pip install .` installs what a client needs. Extras install the rest: `pip install '.[all]'`.

{extras}

With g++, `pip install ./native ./frontends/ort_ep` adds `nnhal native` and `nnhal ort`.
"""
_EXTRAS = {
    "bfloat16": "tensors of bfloat16 for a client",
    "frontends": "import of model files, without a framework",
    "litert": "operators of TensorFlow Lite that the HAL has no operation for",
    "devices": "device processes",
    "service": "the framework",
    "dashboard": "the dashboard",
    "tools": "the command `nnhal`",
    "all": "devices, framework, dashboard, command and LiteRT, as `make install` does",
    "otel": "spans for a collector of OpenTelemetry",
    "ray": "several hosts by Ray Serve",
    "onnxruntime": "the execution provider of ONNX Runtime",
    "native": "programs of NeuralNetworks.h and TensorFlow Lite",
}
"""Extras that users install."""


def commands_page() -> str:
    """Return the page."""
    own = {name: command.load(name) for name, command in COMMANDS.items()}
    others = {
        name: command_of(name, point.load())
        for name, point in plug_ins().items()
        if point.dist is not None and point.dist.name == _DISTRIBUTION
    }
    commands = {**own, **others}
    rows = [
        (
            f"[{name}](#nnhal-{name})",
            GROUP_OF.get(name, "Compilers and scaling" if name in others else "For scripts"),
            _paragraphs(command.help)[0],
        )
        for name, command in commands.items()
    ]
    rows.sort(key=lambda row: _ORDER.index(row[1]))
    return _PAGE.format(
        list=table(("command", "for", "what it does"), rows),
        commands="\n".join(_section(f"nnhal {name}", command) for name, command in commands.items()).rstrip(),
        extras=table(("extra", "what it is for"), _extras()),
    )


_ORDER = [*dict.fromkeys(GROUP_OF.values()), "Compilers and scaling", "For scripts"]


def _section(name: str, command: Any, level: int = 2) -> str:
    """Return the description of a command, and those of its subcommands."""
    parts = [f"{'#' * level} {name}", *_description(command.help)]
    word = name.split()[-1]
    if word in _USAGES:
        parts.append(f"```\n{_USAGES[word]}\n```")
    elif name in _PARSERS:
        parts.append(table(_HEAD, _parser_rows(_PARSERS[name])))
    elif rows := [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", False)]:
        parts.append(table(_HEAD, rows))
    below = [_section(f"{name} {key}", each, level + 1) for key, each in getattr(command, "commands", {}).items()]
    return "\n\n".join(parts) + "\n" + "".join(f"\n{text}" for text in below)


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n")]


def _description(text: str | None) -> Iterator[str]:
    """Yield paragraphs; those that are commands are code."""
    examples = []
    for part in _paragraphs(text):
        if part.startswith("nnhal "):
            examples.append(f"    {part}")
        elif part:
            yield part
    if examples:
        yield "\n".join(examples)


def _row(parameter: Any) -> tuple[str, str, str, str]:
    is_argument = not parameter.opts[0].startswith("-")
    name = parameter.metavar or parameter.name.upper() if is_argument else ", ".join(parameter.opts)
    default = parameter.default
    shown = "" if default in (None, "", (), [], False) or callable(default) else code(_text(default))
    value = "" if is_argument else (parameter.metavar or _kind(parameter))
    needed = "needed" if parameter.required and not is_argument else shown
    return code(name), value, needed, parameter.help or ""


def _kind(parameter: Any) -> str:
    annotation = parameter.type_descriptor.annotation
    name = getattr(annotation, "__name__", str(annotation))
    if name == "bool":
        return ""
    choices = getattr(annotation, "__members__", None)
    if choices is not None:
        return " or ".join(str(choice.value) for choice in choices.values())
    names = {"int": "N", "float": "NUMBER", "Path": "PATH", "str": "TEXT", "list": "TEXT, repeated"}
    return names.get(name, "TEXT")


def _text(default: Any) -> str:
    value = getattr(default, "value", default)
    return ", ".join(map(_text, value)) if isinstance(value, (list, tuple)) else str(value)


_PARSERS: Mapping[str, argparse.ArgumentParser] = {
    "nnhal serve": serve_parser(),
    "nnhal device": device_parser(sorted(drivers_of_nnhal())),
    "nnhal dashboard": dashboard_parser(),
}


def _parser_rows(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str, str, str]]:
    for action in parser._actions:
        if action.help in (None, argparse.SUPPRESS) or isinstance(action, argparse._HelpAction):
            continue
        name = ", ".join(action.option_strings) or action.dest.upper()
        value = "" if action.nargs == 0 else str(action.metavar or "TEXT")
        if action.choices:
            value = " or ".join(map(str, action.choices))
        if not action.option_strings:
            value = ""
        text, default = _split_default(str(action.help))
        needed = "needed" if action.required and action.option_strings else default
        yield code(name), value, needed, f"{text[:1].upper()}{text[1:].rstrip('.')}."


def _split_default(text: str) -> tuple[str, str]:
    """Take the default out of a text such as ``of a body (default 64 MiB)``."""
    found = re.search(r" \(default:? ([^()]*)\)", text)
    return (text.replace(found[0], ""), found[1]) if found else (text, "")


def _extras() -> Iterator[tuple[str, str]]:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name, text in _EXTRAS.items():
        if name not in declared:
            raise KeyError(f"extra {name!r}: pyproject.toml has {', '.join(declared)}")
        yield code(name), text
