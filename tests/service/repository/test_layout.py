from __future__ import annotations

import pytest
from google.protobuf import text_format

from nnhal.inference import model_config_pb2 as wire
from nnhal_service.repository.layout import chosen_versions
from nnhal_service.serving.errors import ServingError


def chosen(policy: str) -> list[int]:
    return chosen_versions([1, 2, 5], text_format.Parse(policy, wire.ModelVersionPolicy()))


@pytest.mark.parametrize(
    ("policy", "versions"),
    [
        ("", [5]),
        ("latest {}", [5]),
        ("latest { num_versions: 2 }", [2, 5]),
        ("latest { num_versions: 9 }", [1, 2, 5]),
        ("all {}", [1, 2, 5]),
        ("specific { versions: [2, 1, 2] }", [1, 2]),
    ],
)
def test_a_policy_chooses_versions(policy: str, versions: list[int]) -> None:
    assert chosen(policy) == versions


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("specific { versions: [1, 3] }", r"asks for versions \[3\], expected some of \[1, 2, 5\]"),
        ("specific {}", "asks for versions none"),
    ],
)
def test_versions_that_are_not_there_are_an_error(policy: str, message: str) -> None:
    with pytest.raises(ServingError, match=message):
        chosen(policy)


def test_a_model_without_a_version_is_an_error() -> None:
    with pytest.raises(ServingError, match="there is no version, expected a folder 1"):
        chosen_versions([], wire.ModelVersionPolicy())
