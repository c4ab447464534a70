"""Preparations that fail, and the errors that the client gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nnhal.errors import DeadObjectError, HalError, TransportError
from nnhal.remote import CompilationCache, RemoteDevice, RemotePreparedModel
from nnhal.types import ErrorStatus
from tests.support.additions import addition_model
from tests.support.refusals import FAILURE, INVALID, refusal
from tests.support.scripted import LAUNCHED, Call, Serve, notified, preparing, refuse, scripted_process

Prepare = Callable[[RemoteDevice], RemotePreparedModel]
PREPARATIONS: dict[str, Prepare] = {
    "Device.PrepareModelWithConfig": lambda device: device.prepare_model(addition_model()),
    "Device.PrepareModelFromCache": lambda device: device.prepare_model_from_cache(CompilationCache()),
}


@pytest.fixture(params=PREPARATIONS)
def method(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.mark.contract("PM-09")
def test_of_two_notifications_the_first_one_counts(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(handle=7), notified(2, message="after all not"))})
    assert PREPARATIONS[method](device).handle == 7


@pytest.mark.contract("PM-09")
def test_a_success_after_a_failure_is_no_success(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(2, message="no room"), notified(handle=7))})
    refusal(lambda: PREPARATIONS[method](device), FAILURE, "no room")


@pytest.mark.contract("PM-09")
def test_nothing_is_awaited_after_the_notification(scripted: Serve, method: str) -> None:
    def never_ends(request: Any, call: Call) -> Iterator[Any]:
        yield from preparing(LAUNCHED, notified(handle=7))
        call.wait_for_the_end()

    device, _ = scripted({method: never_ends})
    assert PREPARATIONS[method](device).handle == 7


@pytest.mark.contract("PM-09")
@pytest.mark.parametrize("events", [(), (LAUNCHED,), (LAUNCHED, LAUNCHED)], ids=["nothing", "a launch", "two launches"])
def test_a_preparation_that_ends_without_a_notification_has_failed(
    scripted: Serve, method: str, events: tuple[Any, ...]
) -> None:
    device, _ = scripted({method: preparing(*events)})
    refusal(lambda: PREPARATIONS[method](device), FAILURE, "without a notification, expected exactly one")


@pytest.mark.contract("PM-10")
@pytest.mark.parametrize("handle", [0, -1])
def test_success_without_a_prepared_model_is_a_failure(scripted: Serve, method: str, handle: int) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(handle=handle))})
    refusal(lambda: PREPARATIONS[method](device), FAILURE, f"prepared model {handle}, expected a handle above 0")


def test_an_error_with_a_prepared_model_is_the_error(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(5, 7, "too late"))})
    refusal(lambda: PREPARATIONS[method](device), ErrorStatus.MISSED_DEADLINE_TRANSIENT, "too late")


@pytest.mark.contract("RS-04")
def test_an_error_of_no_known_number_is_a_general_failure(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(99, message="what"))})
    refusal(lambda: PREPARATIONS[method](device), FAILURE, "what")


@pytest.mark.contract("PM-11")
def test_what_is_thrown_at_launch_is_reported_though_nothing_is_notified(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: refuse(HalError(INVALID, "no such preference"))})
    refusal(lambda: PREPARATIONS[method](device), INVALID, "no such preference")


@pytest.mark.contract("PM-11")
def test_what_is_thrown_at_launch_counts_more_than_what_was_notified(scripted: Serve, method: str) -> None:
    def notifies_and_throws(request: Any, call: Call) -> Iterator[Any]:
        yield from preparing(notified(handle=7))
        raise HalError(INVALID, "no such preference")

    device, _ = scripted({method: notifies_and_throws})
    refusal(lambda: PREPARATIONS[method](device), INVALID, "no such preference")


@pytest.mark.contract("PM-12", "RS-01")
def test_a_preparation_of_which_the_transport_fails_is_no_answer_of_the_device(scripted: Serve, method: str) -> None:
    def breaks(request: Any, call: Call) -> Iterator[Any]:
        yield from preparing(LAUNCHED)
        call.context.abort(grpc.StatusCode.DATA_LOSS, "the wire broke")

    device, _ = scripted({method: breaks})
    with pytest.raises(TransportError, match="DATA_LOSS: the wire broke") as caught:
        PREPARATIONS[method](device)
    assert not isinstance(caught.value, DeadObjectError)


@pytest.mark.contract("PM-12", "PM-13", "RS-02")
def test_a_service_that_dies_while_it_prepares_ends_the_wait(short_path: Path, method: str) -> None:
    with scripted_process(short_path, dies_at=method) as (_, endpoint), RemoteDevice(endpoint, "test") as device:
        for _ in range(2):  # while it prepares, and when it is dead
            with pytest.raises(DeadObjectError):
                PREPARATIONS[method](device)


def test_a_handle_that_is_in_use_is_not_that_of_another_prepared_model(scripted: Serve, method: str) -> None:
    device, _ = scripted({method: preparing(LAUNCHED, notified(handle=7)), "PreparedModel.Release": lambda _: None})
    first = PREPARATIONS[method](device)
    with pytest.raises(HalError, match="answered with prepared model 7, expected another one") as caught:
        PREPARATIONS[method](device)
    assert caught.value.status == ErrorStatus.GENERAL_FAILURE
    first.release()
    assert PREPARATIONS[method](device).handle == 7
