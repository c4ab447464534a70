"""The drivers that devices can be started with. Another process lists them, since loading a backend runs its code."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

_SECONDS = 60.0
_COMMAND = (sys.executable, "-m", "nnhal_devices.inventory", "--names")


class DriverNames:
    """Asks for the names once, when they are first wanted, and does not wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = False
        self._names: tuple[str, ...] = ()

    def get(self) -> tuple[str, ...]:
        """Return the names; none before they are known, a second or so after the first call."""
        with self._lock:
            asked, self._asked = self._asked, True
        if not asked:
            threading.Thread(target=self._ask, name="drivers", daemon=True).start()
        return self._names

    def _ask(self) -> None:
        try:
            done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=_SECONDS, check=False)
            self._names = tuple(json.loads(done.stdout))
        except (OSError, ValueError, subprocess.TimeoutExpired):  # asked again with the next call
            self._asked = False
