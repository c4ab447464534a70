"""From models of the HAL to binaries. The last ones are kept, since a model is optimised, and then prepared."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from nnhal.resolved import ResolvedModel
from nnhal_mlip.artifact import fingerprint
from nnhal_mlip.compilation import CompiledModel, compile_model
from nnhal_mlip.options import MlipOptions
from nnhal_mlip.support import PartitionedHalModel, partition_model

_KEPT = 8


class ModelCompiler:
    """Compiles models. Safe to use from threads."""

    def __init__(self, options: MlipOptions) -> None:
        self.options = options
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, CompiledModel] = OrderedDict()

    def compile(
        self, model: ResolvedModel, tiles: int | None = None, check: Callable[[], None] = lambda: None
    ) -> CompiledModel:
        """Compile a model whose operations are all supported, for so many tiles instead of the options'.

        ``check`` is called after each subgraph, and may raise. Raises MisfitOfTilesError if it does not fit.
        """
        origin = self.origin(model, tiles)
        with self._lock:
            kept = self._kept.get(origin)
            if kept is not None:
                self._kept.move_to_end(origin)
                return kept
        made = compile_model(self.partition(model), self._options_for(tiles), origin, check)
        with self._lock:
            self._kept[origin] = made
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made

    def partition(self, model: ResolvedModel) -> PartitionedHalModel:
        return partition_model(model, self.options.public)

    def origin(self, model: ResolvedModel, tiles: int | None = None) -> bytes:
        """Return the fingerprint of what a model would be compiled from."""
        return fingerprint(model, self._options_for(tiles))

    def _options_for(self, tiles: int | None) -> MlipOptions:
        return replace(self.options, tiles=tiles or self.options.tiles)
