"""What this process's control group says, of version 2 or 1 (cgroups(7))."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_OF_VERSION_1 = {"memory.max": "memory.limit_in_bytes", "memory.current": "memory.usage_in_bytes"}
_NO_LIMIT = 1 << 60
"""Version 1 writes no limit as a number beyond this."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """``proc`` is /proc, ``root`` where control groups are mounted."""

    proc: Path
    root: Path

    def number(self, name: str) -> int | None:
        """A number by version 2's name; None where there is none, or no limit."""
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
        """Where it may be: in the group's own folder, or in the root, which a container sees as its own."""
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
