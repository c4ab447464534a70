"""A cache of the models that a session has sent, so that each is decoded and validated only once.

A client sends a model several times: to have it assessed, optimised and prepared. The first call stores the validated
model under a digest of its message. Pools are not kept: each call takes their descriptors from the session, checks the
files behind them and maps them again, which costs little. So nothing stays mapped, no constant in a pool is copied, and
a constant that the client has changed in a pool is seen.

What depends on the constants is kept if no pool of constants can change any more: that their values fit the dimensions,
and the driver's answers. The number of
its descriptor, which is in the message and never used twice in a session, then stands for its contents. For other pools
the driver is asked in each call. A digest of their contents would take longer than the answers do: 2.4 ms for the
3.5 MB of a MobileNet, for which drivers take 0.02 to 5 ms, and in proportion for larger models.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from nnhal.codec import model_from_wire
from nnhal.codec.memory import Resolve, memory_from_wire
from nnhal.memory import CopyBudget, cannot_change, read_pools, validate_pool
from nnhal.resolved import ResolvedModel, inline_constants
from nnhal.support import Support
from nnhal.types import Model, OperandLifeTime
from nnhal.types.layout import Dimensions
from nnhal.v1 import model_pb2
from nnhal.validation import validate_dimensions, validate_model

MAX_MODELS = 64
"""If a plan has many steps on one device, all of them are optimised before the first is prepared."""
MAX_BYTES = 4 << 20
"""Bytes of all messages; that of a MobileNet has 80 kB. A decoded model takes about eight times as much memory."""


@dataclass(slots=True)
class _Kept:
    """A valid model without its pools, and the driver's answers if they cannot change any more."""

    model: Model
    size: int
    support: tuple[Support, ...] | None = None
    propagated: Mapping[int, tuple[Dimensions, ...]] | None = None
    """Its dimensions by subgraph, if they agree with constants that cannot change any more."""


class ValidModel:
    """A model that has been validated, for one call."""

    def __init__(self, model: Model, kept: _Kept | None = None, copies: CopyBudget | None = None) -> None:
        self.model = model
        self._kept = kept
        self._copies = copies

    @classmethod
    def of(cls, model: Model, copies: CopyBudget | None = None) -> ValidModel:
        """Validate a model. Raises INVALID_ARGUMENT, and as ``resolved``."""
        validate_model(model)
        valid = cls(model, copies=copies)
        valid.require_consistency()
        return valid

    @cached_property
    def resolved(self) -> ResolvedModel:
        """The model with its constants. Raises GENERAL_FAILURE if a pool cannot be read."""
        found = resolve(self.model, self._copies)
        if self._kept is not None and self._kept.propagated is not None:
            found.propagated.update(self._kept.propagated)
        return found

    def support(self, ask: Callable[[ResolvedModel], Sequence[Support]]) -> Sequence[Support]:
        """The driver's answers; ``ask`` is called for them unless they are kept. Raises as ``ask`` and ``resolved``."""
        kept = self._kept
        if kept is not None and kept.support is not None:
            return kept.support
        is_final = self._is_final
        answers = tuple(ask(self.resolved))
        if kept is not None and is_final:
            kept.support = answers
        return answers

    @property
    def knows_support(self) -> bool:
        """Return whether the driver's answers are kept."""
        return self._kept is not None and self._kept.support is not None

    def require_consistency(self) -> None:
        """Refuse dimensions and parameters that contradict one another, unless it is known that they do not.

        Raises INVALID_ARGUMENT, and as ``resolved``.
        """
        kept = self._kept
        if kept is not None and kept.propagated is not None:
            return
        is_final = self._is_final
        validate_dimensions(self.resolved)
        if kept is not None and is_final:
            kept.propagated = self.resolved.propagated

    @property
    def _is_final(self) -> bool:
        """Return whether no pool of constants can change any more."""
        return all(cannot_change(self.model.pools[index]) for index in _pools_of_constants(self.model))


class SessionModels:
    """The models that one session has sent. The least recently used are dropped first. Safe to use from threads."""

    def __init__(self, descriptor: Resolve, copies: CopyBudget | None = None) -> None:
        """``descriptor`` returns a descriptor of the session by its number; ``copies`` limits copies of constants."""
        self._descriptor = descriptor
        self._copies = copies
        self._lock = threading.Lock()
        self._models: OrderedDict[bytes, _Kept] | None = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._models or ())

    def receive(self, message: model_pb2.Model) -> ValidModel:
        """Return a model, decoded and validated unless it is known already.

        Raises INVALID_ARGUMENT, and GENERAL_FAILURE if a pool of constants cannot be read.
        """
        size = message.ByteSize()
        if size > MAX_BYTES:
            return ValidModel.of(model_from_wire(message, self._descriptor), self._copies)
        digest = hashlib.sha256(message.SerializeToString(deterministic=True)).digest()
        kept = self._find(digest)
        if kept is None:
            model = model_from_wire(message, self._descriptor)
            validate_model(model)
            kept = _Kept(replace(model, pools=()), size)
            valid = ValidModel(model, kept, self._copies)
            valid.require_consistency()
            self._keep(digest, kept)
            return valid
        pools = tuple(memory_from_wire(pool, self._descriptor) for pool in message.pools)
        for index, pool in enumerate(pools):  # files change; what the message says of them does not
            validate_pool(pool, f"pool {index} of the model")
        valid = ValidModel(replace(kept.model, pools=pools), kept, self._copies)
        valid.require_consistency()
        return valid

    def close(self) -> None:
        """Drop every model and keep none from now on."""
        with self._lock:
            self._models, self._bytes = None, 0

    def _find(self, digest: bytes) -> _Kept | None:
        with self._lock:
            if self._models is None or digest not in self._models:
                return None
            self._models.move_to_end(digest)
            return self._models[digest]

    def _keep(self, digest: bytes, kept: _Kept) -> None:
        with self._lock:
            if self._models is None or digest in self._models:
                return
            self._models[digest] = kept
            self._bytes += kept.size
            while len(self._models) > MAX_MODELS or self._bytes > MAX_BYTES:
                _, dropped = self._models.popitem(last=False)
                self._bytes -= dropped.size


def resolve(model: Model, copies: CopyBudget | None = None) -> ResolvedModel:
    """Resolve the constants of a validated model. Raises as ``read_pools``."""
    return ResolvedModel(model, inline_constants(model, read_pools(model.pools, _pools_of_constants(model), copies)))


def _pools_of_constants(model: Model) -> set[int]:
    return {
        operand.location.pool_index
        for graph in (model.main, *model.referenced)
        for operand in graph.operands
        if operand.lifetime == OperandLifeTime.CONSTANT_POOL
    }
