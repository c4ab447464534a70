"""The limits of this process's control group, version 1 or 2 (cgroups(7))."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OF_VERSION_1 = {"memory.max": "memory.limit_in_bytes", "memory.current": "memory.usage_in_bytes"}
_NO_LIMIT = 1 << 60
"""Version 1 expresses "no limit" as a number above this one."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The group of this process. ``proc`` is /proc, ``root`` is where control groups are mounted."""

    proc: Path
    root: Path

    def number(self, name: str) -> int | None:
        """A value by its name in version 2; None if it is missing or has no limit."""
        for folder, file in self._places(name):
            try:
                text = (folder / file).read_text().strip()
            except OSError:
                continue
            if text.isdigit():
                return int(text) if int(text) < _NO_LIMIT else None
            return None
        return None

    def _places(self, name: str) -> list[tuple[Path, str]]:
        """The files that may have it: in the group's folder, or in the root, which is a container's own group."""
        controller = name.partition(".")[0]
        old = _OF_VERSION_1.get(name, name)
        places = []
        for line in self._lines():
            _, controllers, path = line.split(":", 2)
            relative = path.lstrip("/")
            if not controllers:
                places += [(self.root / relative, name), (self.root, name)]
            elif controller in controllers.split(","):
                places += [(self.root / controller / relative, old), (self.root / controller, old)]
        return places

    def _lines(self) -> list[str]:
        try:
            lines = (self.proc / "self/cgroup").read_text().splitlines()
        except OSError:
            return []
        return [line for line in lines if line.count(":") >= 2]
