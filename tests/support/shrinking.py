"""Files whose owner shortens, lengthens, perforates, overwrites and unlinks them while a device executes in them."""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from nnhal.descriptor import Descriptor
from nnhal.endpoint import Endpoint
from nnhal.errors import HalError
from nnhal.memory import map_file
from nnhal.remote import RemoteDevice
from nnhal.types import ErrorStatus, MappableFile
from tests.support.additions import Addition, addition_model

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
_PUNCH_HOLE, _KEEP_SIZE = 2, 1
_PAGE = 4096


class ShrinkingFile:
    """A file with a name, and what its owner may do to it."""

    def __init__(self, directory: Path, size: int, random: Random) -> None:
        self._path = directory / f"nnhal-shrinking-{os.getpid()}-{random.getrandbits(64):x}"
        self._size = size
        self._random = random
        self._descriptor = Descriptor(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        os.ftruncate(self._descriptor.fileno(), size)
        self.deeds: Counter[str] = Counter()

    @property
    def memory(self) -> MappableFile:
        """The file as memory, of the size that it had at first."""
        return map_file(self._descriptor, self._size)

    def tamper(self) -> None:
        """Do one thing to it."""
        deed = self._random.choice((self._shorten, self._flicker, self._perforate, self._overwrite, self._unlink))
        self.deeds[deed.__name__.removeprefix("_")] += 1
        with contextlib.suppress(OSError):  # no space
            deed()

    def restore(self) -> None:
        """Give it its size again."""
        os.ftruncate(self._descriptor.fileno(), self._size)

    def close(self) -> None:
        """Remove it."""
        self._unlink()
        self._descriptor.close()

    def _shorten(self) -> None:
        os.ftruncate(self._descriptor.fileno(), self._random.choice((0, 1, self._random.randrange(self._size))))

    def _flicker(self) -> None:
        for _ in range(self._random.randrange(1, 200)):
            os.ftruncate(self._descriptor.fileno(), self._random.randrange(self._size))
            os.ftruncate(self._descriptor.fileno(), self._size)

    def _perforate(self) -> None:
        start = self._random.randrange(self._size)
        _libc.fallocate(self._descriptor.fileno(), _PUNCH_HOLE | _KEEP_SIZE, start, self._size - start)

    def _overwrite(self) -> None:
        os.pwrite(self._descriptor.fileno(), self._random.randbytes(_PAGE), self._random.randrange(self._size))

    def _unlink(self) -> None:
        self._path.unlink(missing_ok=True)


class Attacker:
    """A session that executes in a file which another of its threads tampers with."""

    def __init__(self, endpoint: Endpoint, directory: Path, elements: int, seed: int) -> None:
        self._random = Random(seed)
        self._endpoint = endpoint
        self._directory = directory
        self._elements = elements
        self.deeds: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()

    def attack(self, ending: threading.Event) -> None:
        """Go on until ``ending`` is set, with one file after the other."""
        with RemoteDevice(self._endpoint, "attacker") as device:
            prepared = device.prepare_model(addition_model(self._elements))
            while not ending.is_set():
                file = ShrinkingFile(self._directory, 3 * 4 * self._elements, self._random)
                try:
                    request = Addition(file.memory, self._elements).request
                    burst, execution = prepared.configure_execution_burst(), prepared.create_reusable_execution(request)
                    self._execute_while_tampered(file, partial(burst.run, execution))
                    execution.release()
                    burst.close()
                finally:
                    file.close()
                self.deeds.update(file.deeds)

    def _execute_while_tampered(self, file: ShrinkingFile, run: Callable[[], object]) -> None:
        over, rate = threading.Event(), self._random.choice((5, 50, 500))

        def tamper() -> None:
            while not over.wait(self._random.expovariate(rate)):
                file.tamper()
            file.restore()

        thread = threading.Thread(target=tamper)
        thread.start()
        try:
            for _ in range(self._random.randrange(1, 20)):
                try:
                    run()
                except HalError as error:
                    if error.status != ErrorStatus.GENERAL_FAILURE:
                        raise
                    self.outcomes[error.message.split(":")[0]] += 1
                    break
                self.outcomes["success"] += 1
        finally:
            over.set()
            thread.join()
