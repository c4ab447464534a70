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


_NAMES = """
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
    done = subprocess.run([sys.executable, "-c", _NAMES], capture_output=True, text=True, check=True)
    named, pooled, main = done.stdout.splitlines()
    assert named == "['run channel-123', None]", "cut to 15 bytes, and nothing is profiled any more"
    assert pooled == "pool_0"
    assert main.startswith("python")


def test_a_thread_with_short_turns_keeps_its_policy_and_its_share() -> None:
    code = """
import os, threading
from nnhal_hosting.threads import take_short_turns

def work():
    os.sched_setscheduler(0, policy, os.sched_param(0))
    os.setpriority(os.PRIO_PROCESS, 0, 5)
    for _ in range(2):
        take_short_turns()
        print(os.sched_getscheduler(0) == policy, os.getpriority(os.PRIO_PROCESS, 0))

for policy in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "True 5\n" * 6
