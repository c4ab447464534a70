"""The bounds of a configuration's numbers: what a model may ask of this server.

Numbers that are only told to clients have the range of their type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from google.protobuf.message import Message

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.serving.errors import ErrorKind, ServingError

MOST_BYTES = 1 << 20
"""The time that a configuration may be, as a file or in a request. Its lists can have no more entries than that."""
MOST_INSTANCES = 1024
MOST_PRIORITY_LEVELS = 256
"""A queue looks at each level when it makes a batch."""
MOST_MICROSECONDS = 366 * 24 * 3600 * 10**6
"""A year: what is to last longer has no timeout, which is 0."""
MOST_WARMUP_RUNS = 10_000
MOST_SEQUENCES = 65_536
"""Each has memory of its own, here and on the devices."""
_BOUNDS: Mapping[str, tuple[int, int]] = {
    "ModelConfig.max_batch_size": (0, 2**31 - 1),
    "ModelVersionPolicy.Latest.num_versions": (0, 2**32 - 1),
    "ModelVersionPolicy.Specific.versions": (1, 2**63 - 1),
    "ModelInstanceGroup.count": (0, MOST_INSTANCES),
    "ModelDynamicBatching.preferred_batch_size": (1, 2**31 - 1),
    "ModelDynamicBatching.max_queue_delay_microseconds": (0, MOST_MICROSECONDS),
    "ModelDynamicBatching.priority_levels": (0, MOST_PRIORITY_LEVELS),
    "ModelDynamicBatching.default_priority_level": (0, MOST_PRIORITY_LEVELS),
    "ModelDynamicBatching.PriorityQueuePolicyEntry.key": (1, MOST_PRIORITY_LEVELS),
    "ModelQueuePolicy.default_timeout_microseconds": (0, MOST_MICROSECONDS),
    "ModelQueuePolicy.max_queue_size": (0, 2**32 - 1),
    "ModelWarmup.batch_size": (0, 2**31 - 1),
    "ModelWarmup.count": (0, MOST_WARMUP_RUNS),
    "ModelWarmup.Input.dims": (0, 2**31 - 1),
    "ModelSequenceBatching.max_sequence_idle_microseconds": (0, MOST_MICROSECONDS),
    "ModelSequenceBatching.StrategyOldest.max_candidate_sequences": (0, MOST_SEQUENCES),
    "ModelSequenceBatching.State.dims": (-1, 2**31 - 1),
    "ModelSequenceBatching.InitialState.dims": (-1, 2**31 - 1),
    "ModelTensorReshape.shape": (-1, 2**31 - 1),
    "ModelInput.dims": (-1, 2**31 - 1),
    "ModelOutput.dims": (-1, 2**31 - 1),
}
BOUNDS = {f"{wire.DESCRIPTOR.package}.{name}": bounds for name, bounds in _BOUNDS.items()}
"""The least and the greatest value of each number that has an effect, by the full name of its field."""


def require_bounds(config: wire.ModelConfig) -> None:
    """Raise INVALID_ARGUMENT if a number of a configuration exceeds its bounds."""
    for where, full_name, number in _numbers(config, ""):
        least, greatest = BOUNDS.get(full_name, (number, number))
        if not least <= number <= greatest:
            raise ServingError(ErrorKind.INVALID_ARGUMENT, f"{where} is {number}, expected {least} to {greatest}")


def require_length(text: bytes | str, what: str) -> None:
    """Raise INVALID_ARGUMENT if a configuration is too long to be parsed."""
    if len(text) > MOST_BYTES:
        message = f"{what} has {len(text)} bytes, expected at most {MOST_BYTES}"
        raise ServingError(ErrorKind.INVALID_ARGUMENT, message)


def _numbers(message: Message, prefix: str) -> Iterator[tuple[str, str, int]]:
    """Yield each bounded number that is set: where it stands, the full name of its field, and the number."""
    for field, value in message.ListFields():
        where = f"{prefix}{field.name}"
        entries: Any = value
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            yield from ((f"{where}: key", field.message_type.fields_by_name["key"].full_name, key) for key in value)
            entries = value.values()
        elif not field.is_repeated:
            entries = (value,)
        for entry in entries:
            if isinstance(entry, Message):
                yield from _numbers(entry, f"{where}.")
            elif field.full_name in BOUNDS:
                yield where, field.full_name, entry
