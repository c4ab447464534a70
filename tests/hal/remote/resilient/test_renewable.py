"""Objects that can be had again: who makes them, how often, and what is told when they cannot be made."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from nnhal.errors import DeadObjectError, HalError, NnhalError, TransportError
from nnhal.remote.resilient import DeviceReplacedError, Renewable
from nnhal.types import ErrorStatus
from tests.support.refusals import FAILURE, refusal

THREADS = 8


class Service:
    """What lives until it is killed."""

    def __init__(self, generation: int, dead: bool = False) -> None:
        self.generation = generation
        self.dead = dead

    def ask(self) -> int:
        """Its generation. Raises DeadObjectError."""
        if self.dead:
            raise DeadObjectError(f"generation {self.generation} is dead")
        return self.generation


class Maker:
    """Makes the next generation, or fails as it is told."""

    def __init__(self, *outcomes: NnhalError | Service) -> None:
        self.outcomes = list(outcomes)
        self.dead: list[Service] = []

    def __call__(self, dead: Service) -> Service:
        self.dead.append(dead)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, NnhalError):
            raise outcome
        return outcome


@pytest.mark.contract("RS-08")
def test_a_call_that_finds_a_dead_object_is_made_once_more_on_a_new_one() -> None:
    maker = Maker(Service(1))
    first = Service(0, dead=True)
    service = Renewable(first, maker)
    assert [service.use(Service.ask) for _ in range(3)] == [1, 1, 1]
    assert maker.dead == [first]


@pytest.mark.contract("RS-08")
def test_a_call_is_made_twice_at_most() -> None:
    service = Renewable(Service(0, dead=True), Maker(Service(1, dead=True), Service(2)))
    with pytest.raises(DeadObjectError, match="generation 1 is dead"):
        service.use(Service.ask)
    assert service.use(Service.ask) == 2


@pytest.mark.contract("RS-08")
@pytest.mark.parametrize(
    "reason",
    [
        DeadObjectError("nobody serves"),
        TransportError("too many sessions"),
        HalError(ErrorStatus.RESOURCE_EXHAUSTED_PERSISTENT, "no room"),
    ],
    ids=lambda reason: type(reason).__name__,
)
def test_the_first_death_is_told_where_no_new_one_can_be_had_and_the_next_call_tries_again(reason: NnhalError) -> None:
    maker = Maker(reason, Service(1))
    service = Renewable(Service(0, dead=True), maker)
    with pytest.raises(DeadObjectError, match="generation 0 is dead") as caught:
        service.use(Service.ask)
    assert caught.value.__cause__ is reason
    assert service.use(Service.ask) == 1


@pytest.mark.contract("RS-12")
@pytest.mark.parametrize(
    "error",
    [HalError(ErrorStatus.DEVICE_UNAVAILABLE, "busy"), TransportError("the wire broke"), KeyError("a mistake")],
    ids=lambda error: type(error).__name__,
)
def test_any_other_error_comes_as_it_is(error: Exception) -> None:
    maker = Maker()

    def fail(_: Service) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        Renewable(Service(0), maker).use(fail)
    assert caught.value is error
    assert maker.dead == []


@pytest.mark.contract("RS-09")
def test_what_was_replaced_is_never_asked_again() -> None:
    maker = Maker(DeviceReplacedError("another device is there"), Service(1))
    first = Service(0, dead=True)
    service = Renewable(first, maker)
    for _ in range(2):
        refusal(lambda: service.use(Service.ask), FAILURE, "another device is there")
    first.dead = False
    refusal(lambda: service.use(Service.ask), FAILURE, "another device is there")
    assert maker.dead == [first]
    assert service.last is first


def together(service: Renewable[Service], renewing: Callable[[], None]) -> list[int | NnhalError]:
    """What threads get that all find the object dead before the first of them has another."""
    all_know = threading.Barrier(THREADS)

    def ask(used: Service) -> int:
        try:
            return used.ask()
        except DeadObjectError:
            all_know.wait()
            raise

    def call() -> int | NnhalError:
        try:
            return service.use(ask)
        except NnhalError as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        calls = [pool.submit(call) for _ in range(THREADS)]
        renewing()
        return [call.result() for call in calls]


@pytest.mark.contract("RS-08")
def test_of_several_threads_the_first_makes_it_and_the_others_use_it() -> None:
    made: list[Service] = []
    may_go_on = threading.Event()

    def make(_: Service) -> Service:
        made.append(Service(1))
        may_go_on.wait()
        return made[-1]

    assert together(Renewable(Service(0, dead=True), make), may_go_on.set) == [1] * THREADS
    assert len(made) == 1


@pytest.mark.contract("RS-08")
def test_who_waits_while_another_thread_fails_to_make_it_is_told_of_the_first_death() -> None:
    maker = Maker(*(DeadObjectError("nobody serves") for _ in range(THREADS)))
    answers = together(Renewable(Service(0, dead=True), maker), lambda: None)
    assert [str(answer) for answer in answers] == ["generation 0 is dead"] * THREADS


def test_a_mistake_while_it_is_made_is_no_death() -> None:
    def make(_: Service) -> Service:
        raise KeyError("a mistake")

    service = Renewable(Service(0, dead=True), make)
    for _ in range(2):
        with pytest.raises(KeyError):
            service.use(Service.ask)
