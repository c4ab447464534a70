"""Numbers, texts and lists of a configuration at their extremes: they are taken, or refused in words."""

from __future__ import annotations

import pytest
from google.protobuf import json_format, text_format
from hypothesis import given
from hypothesis import strategies as st

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.completion import complete
from nnhal_service.repository.config_bounds import BOUNDS
from nnhal_service.repository.config_file import config_from_json, read_config
from nnhal_service.repository.layout import chosen_versions
from nnhal_service.repository.parameters import placement_parameters
from nnhal_service.repository.sequences import complete_sequences, state_pairs, without_controls
from nnhal_service.repository.serving_config import serving_config_of
from nnhal_service.repository.source import GivenSource
from nnhal_service.repository.tensors import UNKNOWN, ModelTensor
from nnhal_service.repository.warmup import warmup_requests
from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.queue.request_queue import RequestQueue, Ticket
from tests.support.extremes import Extreme, extremes, numeric_fields
from tests.support.plain_words import require_plain
from tests.support.process_limits import memory_limit

SPARE = 1 << 30
TENSORS = [ModelTensor("x", wire.TYPE_FP32, (UNKNOWN, 3)), ModelTensor("s", wire.TYPE_STRING, (UNKNOWN, UNKNOWN))]
WHOLE = """
max_batch_size: 8
input { name: "x" dims: 3 data_type: TYPE_FP32 }
output { name: "y" dims: 3 data_type: TYPE_FP32 }
version_policy { latest { num_versions: 1 } }
instance_group { count: 1 }
dynamic_batching {
  preferred_batch_size: 4
  max_queue_delay_microseconds: 100
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { max_queue_size: 16 default_timeout_microseconds: 50 allow_timeout_override: true }
  priority_queue_policy { key: 1 value { timeout_action: DELAY } }
}
model_warmup {
  name: "w"
  batch_size: 2
  inputs { key: "x" value { data_type: TYPE_FP32 dims: 3 random_data: true } }
  inputs { key: "s" value { data_type: TYPE_STRING dims: 3 zero_data: true } }
}
parameters { key: "nnhal.min_nodes_per_partition" value { string_value: "2" } }
"""
ALL = list(extremes(wire.ModelConfig.DESCRIPTOR, 2_000))
WITHOUT_EFFECT = (
    *("ModelRateLimiter", "ModelInstanceGroup.", "ModelEnsembling"),
    *("ModelOptimizationPolicy", "ModelMetrics"),
    *("ModelSequenceBatching.Control.", "ModelSequenceBatching.StrategyDirect."),
    "ModelSequenceBatching.StrategyOldest.preferred_batch_size",
    "ModelSequenceBatching.StrategyOldest.max_queue_delay_microseconds",
)
"""What is refused as a whole, or told to clients and nothing else."""
KINDS = {ErrorKind.INVALID_ARGUMENT, ErrorKind.UNSUPPORTED, ErrorKind.NOT_FOUND}


def whole() -> wire.ModelConfig:
    return text_format.Parse(WHOLE, wire.ModelConfig())


def load(config: wire.ModelConfig) -> None:
    """Do with a configuration what loading does, up to its first request."""
    source = GivenSource({"1/model.onnx": b""})
    chosen_versions(source.versions(), config.version_policy)
    placement_parameters(config)
    state_pairs(config, source)
    visible = without_controls(config, TENSORS)
    config = complete(config, "m", "model.onnx", visible, [ModelTensor("y", wire.TYPE_FP32, (UNKNOWN, 3))])
    complete_sequences(config, [])
    serving = serving_config_of(config, source, TENSORS)
    warmup_requests(config, visible, source)
    queue: RequestQueue[Ticket] = RequestQueue(serving)
    queue.put(Ticket(priority=1), 10)
    list(queue)


def as_text(config: wire.ModelConfig) -> wire.ModelConfig:
    return read_config(GivenSource({"config.pbtxt": text_format.MessageToString(config, as_utf8=True).encode()}), "m")


def as_json(config: wire.ModelConfig) -> wire.ModelConfig:
    return config_from_json(json_format.MessageToJson(config), "m")


def require_answer(config: wire.ModelConfig, cause: object) -> None:
    """Check that a configuration is taken, or refused in words, in little memory."""
    for read in (as_text, as_json):
        try:
            with memory_limit(SPARE):
                load(read(config))
        except ServingError as error:
            assert error.kind in KINDS, (error.message, cause)
            require_plain(error.message, cause)


def test_what_is_changed_is_valid_before() -> None:
    load(as_text(whole()))
    load(as_json(whole()))


def test_every_number_that_has_an_effect_has_bounds() -> None:
    names = {field.full_name for field in numeric_fields(wire.ModelConfig.DESCRIPTOR)}
    assert names >= BOUNDS.keys()
    without = names - BOUNDS.keys()
    assert {name for name in without if not name.removeprefix("inference.").startswith(WITHOUT_EFFECT)} == set()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "dynamic_batching { priority_levels: 18446744073709551615 }",
            "is 18446744073709551615, .* 0 to 256",
        ),
        ("dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }", "expected 0 to 31622400000000"),
        ("dynamic_batching { default_queue_policy { default_timeout_microseconds: 31622400000001 } }", "expected 0 to"),
        ("dynamic_batching { priority_queue_policy { key: 257 value {} } }", "priority_queue_policy: key is 257"),
        ("instance_group { count: -1 }", "instance_group.count is -1, expected 0 to 1024"),
        ("model_warmup { count: 4294967295 }", "model_warmup.count is 4294967295, expected 0 to 10000"),
        ('model_warmup { inputs { key: "x" value { dims: 9223372036854775807 } } }', "model_warmup.inputs.dims is 922"),
        ("input { dims: -2 }", "input.dims is -2, expected -1 to 2147483647"),
        ("version_policy { specific { versions: 0 } }", "version_policy.specific.versions is 0, expected 1 to"),
        ("# " + "x" * 2**20, "config.pbtxt.: got 1048578 bytes, expected a file of a model of at most 1048576"),
    ],
)
def test_a_number_beyond_its_bounds_is_named_with_them(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        read_config(GivenSource({"config.pbtxt": text.encode()}), "m")
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


def test_data_for_warming_up_has_so_many_elements_at_most() -> None:
    config = whole()
    config.model_warmup[0].inputs["s"].dims[:] = [2**25]
    with memory_limit(SPARE), pytest.raises(ServingError, match="more than 67108864 elements"):
        load(as_text(config))


@pytest.mark.slow
def test_every_field_at_its_extremes_is_taken_or_refused_in_words() -> None:
    for extreme in ALL:
        require_answer(extreme.applied(whole()), extreme)


@pytest.mark.slow
@given(st.lists(st.sampled_from(ALL), min_size=2, max_size=4))
def test_several_fields_at_their_extremes_are_taken_or_refused_in_words(chosen: list[Extreme]) -> None:
    config = whole()
    for extreme in chosen:
        extreme.apply(config)
    require_answer(config, [str(extreme) for extreme in chosen])
