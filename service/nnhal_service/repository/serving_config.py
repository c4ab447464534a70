"""From a model's configuration to its ServingConfig."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.completion import item_dims
from nnhal_service.repository.config_bounds import MOST_INSTANCES
from nnhal_service.repository.names import is_file_name
from nnhal_service.repository.parameters import latency_goal_ns
from nnhal_service.repository.sequences import sequencing_of
from nnhal_service.repository.source import ModelSource
from nnhal_service.repository.tensors import UNKNOWN, ModelTensor
from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.requests.reshape import Reshape

_NS_PER_US = 1000
_MOST_LABEL_BYTES = 16 << 20


def serving_config_of(
    config: wire.ModelConfig, source: ModelSource, inputs: Sequence[ModelTensor], outputs: Sequence[ModelTensor] = ()
) -> ServingConfig:
    """Return how a model with these inputs and outputs is served. Labels are read from its files.

    Raises ServingError if values contradict.
    """
    batching = config.dynamic_batching
    _require_priorities(batching)
    return ServingConfig(
        max_batch_size=config.max_batch_size,
        instances=_instances(config),
        batching=_batching(config),
        queue=_queue(batching.default_queue_policy),
        priority_levels=batching.priority_levels,
        default_priority=batching.default_priority_level,
        priority_queues={level: _queue(policy) for level, policy in sorted(batching.priority_queue_policy.items())},
        labels=_labels(config, source),
        sequences=sequencing_of(config, inputs),
        input_shapes=_reshapes(config.input, inputs, config.max_batch_size),
        output_shapes=_reshapes(config.output, outputs, config.max_batch_size),
        unlisted_outputs=tuple(t.name for t in outputs if t.name not in {entry.name for entry in config.output}),
        goal_ns=latency_goal_ns(config),
    )


def _reshapes(
    entries: Iterable[wire.ModelInput | wire.ModelOutput], tensors: Iterable[ModelTensor], max_batch_size: int
) -> dict[str, Reshape]:
    """Return the shapes that a configuration states in another form, or more narrowly, than the model."""
    batch = (UNKNOWN,) if max_batch_size > 0 else ()
    stated = {tensor.name: item_dims(tensor, max_batch_size) for tensor in tensors}
    found = {}
    for entry in entries:
        dims = tuple(entry.dims)
        if entry.HasField("reshape"):
            found[entry.name] = Reshape((*batch, *dims), (*batch, *entry.reshape.shape))
        elif dims and dims != stated.get(entry.name, dims):
            found[entry.name] = Reshape((*batch, *dims), (*batch, *dims))
    return found


def _instances(config: wire.ModelConfig) -> int:
    """Return the instances of all groups together; a count of 0 means one."""
    total = sum(group.count or 1 for group in config.instance_group) or 1
    if total > MOST_INSTANCES:
        _refuse(f"instance_group has {total} instances in all, expected at most {MOST_INSTANCES}")
    return total


def _batching(config: wire.ModelConfig) -> Batching | None:
    if not config.HasField("dynamic_batching"):
        return None
    given, greatest = config.dynamic_batching, config.max_batch_size
    for size in given.preferred_batch_size:
        if not 0 < size <= greatest:
            _refuse(f"preferred_batch_size has {size}, expected 1 to max_batch_size, which is {greatest}")
    if greatest == 0:
        if given.max_queue_delay_microseconds:
            _refuse("max_queue_delay_microseconds is set, expected none with max_batch_size 0: there are no batches")
        return None
    return Batching(
        tuple(sorted(set(given.preferred_batch_size))),
        given.max_queue_delay_microseconds * _NS_PER_US,
        given.preserve_ordering,
    )


def _queue(policy: wire.ModelQueuePolicy) -> QueuePolicy:
    delay = policy.timeout_action == wire.ModelQueuePolicy.DELAY
    return QueuePolicy(
        TimeoutAction.DELAY if delay else TimeoutAction.REJECT,
        policy.default_timeout_microseconds * _NS_PER_US,
        policy.allow_timeout_override,
        policy.max_queue_size,
    )


def _require_priorities(batching: wire.ModelDynamicBatching) -> None:
    levels, default = batching.priority_levels, batching.default_priority_level
    if (levels and not 0 < default <= levels) or (default and not levels):
        _refuse(f"default_priority_level is {default}, expected 1 to priority_levels, which is {levels}; or neither")
    for level in batching.priority_queue_policy:
        if not 0 < level <= levels:
            _refuse(f"priority_queue_policy has level {level}, expected 1 to priority_levels, which is {levels}")


def _labels(config: wire.ModelConfig, source: ModelSource) -> Mapping[str, tuple[str, ...]]:
    return {
        output.name: _read_labels(output.name, output.label_filename, source)
        for output in config.output
        if output.label_filename
    }


def _read_labels(output: str, file: str, source: ModelSource) -> tuple[str, ...]:
    if not is_file_name(file):
        _refuse(f"label_filename of {output!r} is {file!r}, expected a file in the model's folder")
    try:
        text = source.read(file, _MOST_LABEL_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _refuse(f"label_filename of {output!r}: {file!r} is not text in UTF-8 ({error.reason})")
    # Only line feeds end lines: splitlines would also cut a label at U+2028, a form feed and others.
    lines = text.removesuffix("\n").split("\n") if text else []
    return tuple(line.removesuffix("\r") for line in lines)


def _refuse(message: str) -> NoReturn:
    raise ServingError(ErrorKind.INVALID_ARGUMENT, message)
