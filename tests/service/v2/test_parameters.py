"""The parameters that the protocol has a meaning for, and those that are the model's."""

from __future__ import annotations

import pytest

from nnhal_service.serving.errors import ErrorKind, ServingError
from nnhal_service.serving.request import Parameter
from nnhal_service.v2.parameters import request_parameters


def test_what_the_protocol_has_no_meaning_for_is_the_model_s() -> None:
    found = request_parameters(
        {"priority": 2, "timeout": 3, "binary": True, "sequence_start": False, "mine": "a"}, flags=("binary",)
    )
    assert (found.priority, found.timeout_ns) == (2, 3000)
    assert found.others == {"sequence_start": False, "mine": "a"}


def test_without_parameters_nothing_is_said() -> None:
    found = request_parameters({})
    assert (found.priority, found.timeout_ns, found.others) == (0, 0, {})


@pytest.mark.parametrize("timeout", [2**53, 2**63 - 1, 2**64 - 1])
def test_a_timeout_after_which_the_clock_would_run_over_is_one_of_146_years(timeout: int) -> None:
    assert request_parameters({"timeout": timeout}).timeout_ns == 2**62


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"priority": -1}, "parameter 'priority' is -1, expected 0 or more"),
        ({"timeout": True}, "parameter 'timeout' is True, expected an integer"),
        ({"timeout": 0.5}, "parameter 'timeout' is 0.5, expected an integer"),
        ({"sequence_end": 1}, "parameter 'sequence_end' is 1, expected true or false"),
        ({"binary": "yes"}, "parameter 'binary' is 'yes', expected true or false"),
        ({"triton_x": 1}, "parameter 'triton_x': names that begin with 'triton_' are reserved"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Parameter], message: str) -> None:
    with pytest.raises(ServingError) as caught:
        request_parameters(given, flags=("binary",))
    assert (caught.value.kind, caught.value.message) == (ErrorKind.INVALID_ARGUMENT, message)
