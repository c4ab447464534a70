from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from nnhal_ray.options import ScaleOutOptions


def test_a_command_line_gives_one_repository_as_a_word() -> None:
    options = ScaleOutOptions.model_validate({"model_repository": "/srv/models", "insecure": "true", "max_hosts": "3"})
    assert options.model_repository == (Path("/srv/models"),)
    assert (options.min_hosts, options.max_hosts) == (1, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"model_repository": "/srv/models"}, "listens at all interfaces: give 'tokens'"),
        ({"insecure": True}, "model_repository"),
        ({"model_repository": "models", "insecure": True}, r"\['models'\]: expected absolute ones"),
        (
            {"model_repository": "/m", "insecure": True, "min_hosts": 2},
            "max_hosts is 1, expected at least",
        ),
        ({"model_repository": "/m", "insecure": True, "accelerators": {"npu": 0}}, "accelerators.npu"),
        ({"model_repository": "/m", "insecure": True, "replicas": 2}, "replicas"),
    ],
)
def test_what_is_wrong_with_arguments_is_said(arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ScaleOutOptions.model_validate(arguments)
