"""How prepared models are called when operators are told of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from nnhal.extensions import type_in_words
from nnhal.types import Model, OperationType
from nnhal.types.layout import is_extension
from nnhal_devices.host.bound_run import RunnableModel
from nnhal_devices.host.client_session import ClientSession
from nnhal_devices.host.prepared_model import PreparedModel

RELEASED = "a released prepared model"
_MOST_KINDS = 3
"""Kinds of operations that a summary names."""


def names_of(client: ClientSession) -> Mapping[RunnableModel, str]:
    """Return the names of a session's prepared models: those that it has released have none."""
    return {prepared: f"prepared model {handle}" for handle, prepared in client.by_handle(PreparedModel).items()}


def summary_of(model: Model) -> str:
    """Say what a model computes, in a few words: ``12 operations: 5 CONV_2D, 4 ADD, 2 RELU and others``."""
    codes = [operation.type for operation in model.main.operations]
    kinds = Counter(_kind(model, code) for code in codes).most_common()
    named = ", ".join(f"{count} {kind}" if len(codes) > 1 else kind for kind, count in kinds[:_MOST_KINDS])
    others = " and others" if len(kinds) > _MOST_KINDS else ""
    return f"{len(codes)} operation{'s' if len(codes) > 1 else ''}: {named}{others}"


def _kind(model: Model, code: int) -> str:
    return f"operation {type_in_words(model, code)}" if is_extension(code) else OperationType(code).name
