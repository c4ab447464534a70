from __future__ import annotations

import pytest
from google.protobuf import text_format

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.serving_config import serving_config_of
from nnhal_service.repository.source import GivenSource
from nnhal_service.serving.config import Batching, QueuePolicy, ServingConfig, TimeoutAction
from nnhal_service.serving.errors import ErrorKind, ServingError


def served(text: str, **files: bytes) -> ServingConfig:
    return serving_config_of(text_format.Parse(text, wire.ModelConfig()), GivenSource(files), [])


def test_nothing_said_is_one_instance_and_no_batching() -> None:
    assert served("") == ServingConfig()


def test_instances_of_all_groups_count() -> None:
    assert served("instance_group { count: 3 kind: KIND_CPU } instance_group {}").instances == 4


def test_batches_and_queues_are_taken_over() -> None:
    config = served(
        """
        max_batch_size: 8
        dynamic_batching {
          preferred_batch_size: [8, 4]
          max_queue_delay_microseconds: 100
          preserve_ordering: true
          priority_levels: 2
          default_priority_level: 2
          default_queue_policy { max_queue_size: 16 default_timeout_microseconds: 50 allow_timeout_override: true }
          priority_queue_policy { key: 1 value { timeout_action: DELAY } }
        }
        """
    )
    assert config == ServingConfig(
        max_batch_size=8,
        batching=Batching((4, 8), 100_000, True),
        queue=QueuePolicy(TimeoutAction.REJECT, 50_000, True, 16),
        priority_levels=2,
        default_priority=2,
        priority_queues={1: QueuePolicy(TimeoutAction.DELAY)},
    )


def test_a_queue_needs_no_batches() -> None:
    config = served("dynamic_batching { default_queue_policy { max_queue_size: 3 } }")
    assert config.batching is None
    assert config.queue.max_queue_size == 3


def test_labels_are_lines_of_a_file() -> None:
    config = served('output { name: "y" label_filename: "labels.txt" }', **{"labels.txt": "cat\nähre\n".encode()})
    assert config.labels == {"y": ("cat", "ähre")}


@pytest.mark.parametrize("mark", "\u2028\u2029\x85\x0c\x0b\x1c\x1d\x1e")
def test_only_line_feeds_end_labels(mark: str) -> None:
    text = f"\ufeffgreat{mark}ape\r\ncat\n\ndog".encode()
    config = served('output { name: "y" label_filename: "labels.txt" }', **{"labels.txt": text})
    assert config.labels == {"y": (f"great{mark}ape", "cat", "", "dog")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: 9 }", "has 9, expected 1 to max_batch_size, .* 8"),
        ("dynamic_batching { preferred_batch_size: 4 }", "has 4, expected 1 to max_batch_size, which is 0"),
        ("dynamic_batching { max_queue_delay_microseconds: 1 }", "max_queue_delay_microseconds is set, expected none"),
        ("dynamic_batching { priority_levels: 2 }", "default_priority_level is 0, expected 1 to priority_levels, .* 2"),
        ("dynamic_batching { priority_levels: 2 default_priority_level: 3 }", "default_priority_level is 3"),
        ("dynamic_batching { default_priority_level: 1 }", "default_priority_level is 1"),
        ("dynamic_batching { priority_queue_policy { key: 1 value {} } }", "priority_queue_policy has level 1"),
        ("instance_group { count: 1000000 }", "1000000 instances in all, expected at most 1024"),
        ("instance_group { count: 1024 } instance_group {}", "1025 instances in all"),
        ('output { name: "y" label_filename: "../secret" }', "label_filename of 'y' is '../secret'"),
        ('output { name: "y" label_filename: "binary" }', "'binary' is not text in UTF-8"),
    ],
)
def test_what_contradicts_itself_is_an_error(text: str, message: str) -> None:
    with pytest.raises(ServingError, match=message) as caught:
        served(text, binary=b"\xff\xfe")
    assert caught.value.kind == ErrorKind.INVALID_ARGUMENT


def test_labels_that_are_not_there_are_an_error() -> None:
    with pytest.raises(ServingError, match=r"there is no file 'labels\.txt'"):
        served('output { name: "y" label_filename: "labels.txt" }')
