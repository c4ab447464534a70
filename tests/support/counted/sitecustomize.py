"""Has each Python process with this folder on its path count, when it gets SIGUSR2: its objects, or its calls.

NNHAL_TEST_COUNTS names the folder for counts of objects. If NNHAL_TEST_CALLS names one in its place, the process counts
its calls from its start on.
"""

import gc
import json
import os
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType


def _report(folder: str, told: object) -> None:
    made = Path(folder) / f"{os.getpid()}.new"
    made.write_text(json.dumps(told))
    made.rename(made.with_suffix(""))


def _count(*_: object) -> None:
    gc.collect()
    kinds = Counter(f"{type(it).__module__}.{type(it).__qualname__}" for it in gc.get_objects())
    _report(os.environ["NNHAL_TEST_COUNTS"], {"blocks": sys.getallocatedblocks(), "kinds": kinds})


class _Calls:
    """Counts the calls of Python functions in threads that start from now on, and tells those since the last signal."""

    def __init__(self) -> None:
        self._of_threads: dict[int, Counter[CodeType]] = {}
        threading.setprofile(self._note)
        threading.setprofile = lambda _: None  # type: ignore[assignment] # nnhal sets a hook of its own

    def tell(self, *_: object) -> None:
        counted, self._of_threads = self._of_threads, {}
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        rows = [
            (names.get(ident, ""), code.co_filename, code.co_firstlineno, code.co_name, count)
            for ident, calls in counted.items()
            for code, count in calls.items()
        ]
        _report(os.environ["NNHAL_TEST_CALLS"], rows)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            self._of_threads.setdefault(threading.get_ident(), Counter())[frame.f_code] += 1


if "NNHAL_TEST_COUNTS" in os.environ:
    signal.signal(signal.SIGUSR2, _count)
elif "NNHAL_TEST_CALLS" in os.environ:
    signal.signal(signal.SIGUSR2, _Calls().tell)
