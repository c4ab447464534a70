"""The actions of a thread: every method of the HAL, with valid and with invalid arguments."""

from __future__ import annotations

from collections.abc import Callable

from nnhal.types import ErrorStatus
from nnhal_tools.stress.actions import (
    buffers,
    bursts,
    caching,
    device,
    execution,
    fenced,
    preparation,
    shared,
)
from nnhal_tools.stress.actor import Actor
from nnhal_tools.stress.shared import SharedObjects

Action = Callable[[Actor], ErrorStatus]
SharedAction = Callable[[Actor, SharedObjects], ErrorStatus]

ACTIONS: dict[str, tuple[int, Action]] = {
    "getters": (3, device.getters),
    "usage": (1, device.usage),
    "support": (2, device.support),
    "support, invalid": (2, device.support_of_invalid),
    "prepare": (4, preparation.prepare),
    "prepare, invalid": (3, preparation.prepare_invalid),
    "prepare, file truncated": (1, preparation.prepare_without_constants),
    "prepare and save": (2, caching.save),
    "prepare from cache": (2, caching.load),
    "prepare from cache, damaged": (2, caching.load_damaged),
    "execute": (8, execution.execute),
    "execute, invalid": (5, execution.execute_invalid),
    "execute, file truncated": (2, execution.execute_in_truncated_file),
    "execute again": (8, execution.execute_again),
    "create execution": (2, lambda actor: _made(actor.execution())),
    "create execution, invalid": (2, execution.create_invalid_execution),
    "open burst": (2, bursts.open_burst),
    "burst": (8, bursts.execute),
    "burst, invalid": (3, bursts.execute_invalid),
    "burst, file truncated": (1, bursts.execute_in_truncated_file),
    "burst, foreign execution": (1, bursts.run_foreign),
    "burst, release": (2, bursts.release_memory),
    "burst, release, invalid": (1, bursts.release_invalid_memory),
    "launch": (9, fenced.launch),
    "launch, invalid": (3, fenced.launch_invalid),
    "launch, file truncated": (2, fenced.launch_in_truncated_file),
    "launch, open output": (1, fenced.launch_of_open_size),
    "launch a chain": (4, fenced.chain),
    "launch, information": (4, fenced.inquire),
    "launch, end a fence": (4, fenced.end_gate),
    "launch, wait": (5, fenced.settle),
    "launch channel, reopen": (1, fenced.reopen_launcher),
    "allocate": (3, buffers.allocate),
    "allocate, invalid": (3, buffers.allocate_invalid),
    "copy in": (6, buffers.copy_in),
    "copy in, invalid": (2, buffers.copy_in_invalid),
    "copy out": (6, buffers.copy_out),
    "release": (2, device.release),
    "use after release": (3, device.use_after_release),
}
"""Actions on objects of the thread's own, with their weights."""

SHARED_ACTIONS: dict[str, tuple[int, SharedAction]] = {
    "shared: execute": (6, shared.execute),
    "shared: launch": (3, shared.launch),
    "shared: information": (1, shared.inquire),
    "shared: buffer": (4, shared.use_buffer),
    "shared: cache": (2, shared.use_cache),
    "shared: replace": (1, shared.replace_some),
}
"""Actions on objects that all threads share, with their weights."""


def _made(thing: object) -> ErrorStatus:
    del thing
    return ErrorStatus.NONE
