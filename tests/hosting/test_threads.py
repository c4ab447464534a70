from __future__ import annotations

import subprocess
import sys

import pytest

_START = """
import threading
from nnhal_hosting.threads import refuse_threads_without_memory

class Stillborn(threading.Thread):
    def _bootstrap(self):  # as if there were no memory for its frame
        raise MemoryError

refuse_threads_without_memory()
ran = threading.Event()
threading.Thread(target=ran.set).start()
ran.wait()
try:
    Stillborn(target=print, daemon=True).start()
except RuntimeError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_thread_that_ends_before_it_has_begun_is_an_error_of_its_start() -> None:
    done = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "can't start new thread\n"
