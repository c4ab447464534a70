"""systemd's units of deploy/systemd, as far as tests read them (systemd.syntax(7))."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "deploy/systemd"
_BINARY = "/opt/nnhal/bin/nnhal"


@dataclass(frozen=True, slots=True)
class SystemdUnit:
    """A unit file."""

    name: str
    settings: dict[str, list[str]]
    """All values of each setting, by ``Section.Name``."""

    def words(self, setting: str) -> list[str]:
        return [word for value in self.settings.get(setting, []) for word in value.split()]

    def command(self, instance: str = "") -> list[str]:
        """What it runs, after the name of the program, for an instance of a template."""
        (line,) = self.settings["Service.ExecStart"]
        program, *words = shlex.split(line.replace("%i", instance))
        assert program == _BINARY
        return words


def read_unit(path: Path) -> SystemdUnit:
    settings: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text().replace("\\\n", " ").splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(f"{section}.{name}", []).append(value)
    return SystemdUnit(path.name, settings)


def units() -> dict[str, SystemdUnit]:
    kinds = (".service", ".socket", ".target")
    return {path.name: read_unit(path) for path in sorted(FOLDER.iterdir()) if path.suffix in kinds}
