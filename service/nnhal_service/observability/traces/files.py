"""Trace files, all in one directory."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from nnhal.whole_files import write_whole
from nnhal_hosting.logs import get_logger
from nnhal_service.observability.traces.formats import chrome_trace, triton_trace
from nnhal_service.observability.traces.request_trace import RequestTrace
from nnhal_service.observability.traces.settings import CHROME, TRITON

_MOST_TRACES = 1000
"""The traces of one file, if no setting says when it is to be written."""
_MOST_BYTES = 1 << 28
_WRITERS: Mapping[str, Callable[[Sequence[RequestTrace]], bytes]] = {TRITON: triton_trace, CHROME: chrome_trace}
_log = get_logger(__name__)


class TraceFiles:
    """Keeps traces until a file has as many as it should, or they are flushed. A thread of its own writes the files.

    A file is complete when it appears. The first has its plain name, further ones a number after it. Safe to use from
    several threads.
    """

    def __init__(self, directory: Path, most_bytes: int = _MOST_BYTES) -> None:
        """``most_bytes`` is what this process may write in total. Raises ValueError if the directory does not exist."""
        if not directory.is_dir():
            raise ValueError(f"trace directory {directory}: expected a directory")
        self._directory = directory.resolve()
        self._left = most_bytes
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], list[RequestTrace]] = {}
        self._written: Counter[str] = Counter()
        self._thread = ThreadPoolExecutor(1, "trace-files")

    def add(self, name: str, mode: str, frequency: int, trace: RequestTrace) -> None:
        """Keep a trace for a file, which is written once it has ``frequency`` traces; if that is 0, when flushed."""
        with self._lock:
            kept = self._kept.setdefault((name, mode), [])
            kept.append(trace)
            if len(kept) >= (frequency or _MOST_TRACES):
                self._submit(name, mode, is_numbered=frequency > 0)

    def finish(self, name: str, mode: str) -> None:
        """Start writing what is kept for a file, and return at once."""
        with self._lock:
            if (name, mode) in self._kept:
                self._submit(name, mode, is_numbered=False)

    def flush(self) -> None:
        """Write everything that is kept, and wait until it is in files."""
        with self._lock:
            for name, mode in list(self._kept):
                self._submit(name, mode, is_numbered=False)
            written = self._thread.submit(lambda: None)
        written.result()

    def close(self) -> None:
        """Write everything that is kept. ``add`` may not be called afterwards."""
        self.flush()
        self._thread.shutdown()

    def _submit(self, name: str, mode: str, is_numbered: bool) -> None:
        traces = self._kept.pop((name, mode))
        number = self._written[name]
        self._written[name] += 1
        self._thread.submit(self._write, f"{name}.{number}" if is_numbered or number else name, mode, traces)

    def _write(self, name: str, mode: str, traces: Sequence[RequestTrace]) -> None:
        content = _WRITERS[mode](traces)
        if len(content) > self._left:
            _log.error(
                "traces are lost: the limit on their bytes is reached",
                file=name,
                traces=len(traces),
                bytes_left=self._left,
            )
            return
        self._left -= len(content)
        try:
            write_whole(self._directory / name, content, 0o640, f"{os.getpid()}")
        except OSError as error:
            _log.error("traces are lost: a file cannot be written", file=name, traces=len(traces), reason=str(error))
