"""Bursts."""

from __future__ import annotations

import threading

from nnhal_client.ndk.compilation import Compilation


class Burst:
    """ANeuralNetworksBurst: for executions of one compilation that follow one another closely. One at a time."""

    def __init__(self, compilation: Compilation) -> None:
        """Raises BAD_STATE where the compilation is not finished."""
        self.model = compilation.loaded
        self.busy = threading.Lock()
