"""Threads show their names in /proc."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
from concurrent.futures import ThreadPoolExecutor
from nnhal_hosting.threads import show_thread_names

def shown():
    return open("/proc/thread-self/comm").read().rstrip()

show_thread_names()
names = []
def note():
    names.append(shown())
    names.append(sys.getprofile())
thread = threading.Thread(target=note, name="run channel-12345")
thread.start()
thread.join()
print(names)
with ThreadPoolExecutor(1, "pool") as pool:
    print(pool.submit(shown).result())
print(shown())
"""


def test_a_thread_has_its_name_and_the_main_one_that_of_the_process() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    named, pooled, main = done.stdout.splitlines()
    assert named == "['run channel-123', None]", "cut to 15 bytes, and nothing is profiled any more"
    assert pooled == "pool_0"
    assert main.startswith("python")
