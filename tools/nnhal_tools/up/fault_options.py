"""Permission of faults for the devices of a testbed, and the faults that they have from the start on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class FaultOptions:
    """Faults that all devices of a testbed are allowed."""

    def __init__(self, allowed: bool = False, file: Path | None = None) -> None:
        """Read the ``file``, if there is one. Raises FaultDocumentError."""
        self._allowed = allowed
        self._file = file.resolve() if file is not None else None
        if file is not None:
            from nnhal_hosting.faults import read_faults_file  # pydantic reads its models, which takes a while

            read_faults_file(file)

    def words(self) -> Callable[[], list[str]]:
        """Return a function that gives the words of a device's command line, each time that the device is started."""
        starts = 0

        def words_of_start() -> list[str]:
            nonlocal starts
            starts += 1
            if not self._allowed:
                return []
            again = ["--started-again"] if starts > 1 else []
            return ["--allow-faults", *([f"--faults={self._file}", *again] if self._file is not None else [])]

        return words_of_start


NO_FAULTS = FaultOptions()
"""Devices that take no faults."""
