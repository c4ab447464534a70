"""docker-compose.yml without Docker: its services, with the variables that a user may set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True, slots=True)
class ComposeService:
    """A service of the file."""

    name: str
    content: Mapping[str, Any]

    @property
    def profiles(self) -> list[str]:
        return list(self.content.get("profiles", ()))

    @property
    def argv(self) -> list[str]:
        """Command of its container; an image's own entrypoint is not in it, except that of nnhal's."""
        entrypoint = self.content.get("entrypoint", ["nnhal"] if self.is_nnhal else [])
        return [*entrypoint, *self.content.get("command", ())]

    @property
    def is_nnhal(self) -> bool:
        """Return whether it is of the image with the command ``nnhal``."""
        return any(name in self.content["image"] for name in ("nnhal:", "nnhal-gpu:"))

    @property
    def is_device(self) -> bool:
        return self.argv[:3] == ["nnhal", "watched", "device"]

    @property
    def runs_on(self) -> bool:
        """True if it is to run until it is stopped: what is started once, or by hand, has nothing to wait for."""
        return not (self.content["restart"] == "no" or self.name == "gpu_added")

    @property
    def mounts(self) -> dict[str, str]:
        pairs = (volume.split(":")[:2] for volume in self.content.get("volumes", ()))
        return {target: source for source, target in pairs}


def variables() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, default in _VARIABLE.findall(FILE.read_text()):
        found.setdefault(name, set()).add(default)
    return found


def compose_file(given: Mapping[str, str] | None = None, file: Path = FILE) -> dict[str, Any]:
    """The content of the file, or of one that is used with it, if the user sets these variables."""
    content: dict[str, Any] = _filled(yaml.safe_load(file.read_text()), given or {})
    return content


def compose_services(given: Mapping[str, str] | None = None, file: Path = FILE) -> dict[str, ComposeService]:
    return {name: ComposeService(name, content) for name, content in compose_file(given, file)["services"].items()}


def env_file(name: str) -> dict[str, str]:
    lines = (ROOT / "deploy" / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _filled(value: Any, given: Mapping[str, str]) -> Any:
    """A part of the file with its variables replaced, which Compose does in texts only."""
    if isinstance(value, dict):
        return {key: _filled(child, given) for key, child in value.items()}
    if isinstance(value, list):
        return [_filled(child, given) for child in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: given.get(found[1]) or found[2], value)
    return value
