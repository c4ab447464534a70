from __future__ import annotations

import pytest

from nnhal.errors import HalError
from nnhal.link.tenants import tenant_from_wire, tenant_to_wire
from nnhal.shares import NOBODY, Level, Shares, Tenant, acting_for, tenant
from nnhal.types import ErrorStatus
from nnhal.v1 import link_pb2 as wire


def client(*names: str) -> Tenant:
    return Tenant(tuple(Level(name, f"client {name}") for name in names))


def hoard(shares: Shares, hoarder: Tenant) -> int:
    """Take one by one until that is refused, and return how many."""
    taken = 0
    with acting_for(hoarder):
        while True:
            try:
                shares.take(1)
            except HalError as error:
                assert error.status == ErrorStatus.RESOURCE_EXHAUSTED_TRANSIENT
                return taken
            taken += 1


@pytest.fixture
def shares() -> Shares:
    return Shares(1024, "things at device d", "NNHAL_THINGS")


def test_each_client_leaves_a_quarter_of_what_it_finds(shares: Shares) -> None:
    assert [hoard(shares, client(name)) for name in "abcd"] == [768, 192, 48, 12]
    assert hoard(shares, client("a")) == 0
    assert shares.held == 1020


def test_a_client_may_have_a_little_as_long_as_any_is_left(shares: Shares) -> None:
    for name in "abcd":
        hoard(shares, client(name))
    assert [hoard(shares, client(name)) for name in "efg"] == [3, 1, 0]


def test_what_a_client_of_an_intermediary_hoards_is_missing_to_no_other_and_naming_many_gains_nothing() -> None:
    shares, honest = Shares(1024, "things", ""), Shares(1024, "things", "")
    assert hoard(shares, client("framework", "a")) == 576  # three quarters of three quarters
    assert hoard(shares, client("framework", "b")) == 144
    many = sum(hoard(honest, client("liar", str(number))) for number in range(2000))
    assert many <= hoard(Shares(1024, "things", ""), client("liar")) == 768
    assert hoard(honest, client("another")) >= 192


def test_what_is_given_back_is_for_all_again(shares: Shares) -> None:
    with acting_for(client("a")):
        taken = [shares.take(64) for _ in range(12)]
    assert hoard(shares, client("b")) == 192
    for each in taken:
        shares.give_back(each, 64)
    assert hoard(shares, client("c")) == 624


def test_a_client_may_have_a_limit_of_its_own() -> None:
    shares = Shares(1024, "things", "", most=10)
    assert [hoard(shares, client(name)) for name in "abc"] == [10, 10, 10]


def test_a_refusal_says_who_holds_what_and_the_setting(shares: Shares) -> None:
    with acting_for(client("big")):
        shares.take(768)
    with acting_for(client("small")), pytest.raises(HalError) as caught:
        shares.take(200, "a table")
    assert caught.value.message == (
        "a table takes 200 things at device d; client small holds 0 of the 192 that it may have at present, and all "
        "clients together hold 768 of 1024: client big has 768 (NNHAL_THINGS)"
    )


def test_what_is_charged_for_an_object_is_given_back_with_it_whoever_acts(shares: Shares) -> None:
    class Owner:
        """Owner of something."""

    owner = Owner()
    with acting_for(client("a")):
        shares.charge_for(owner, 100)
        with shares.taken(20):
            assert shares.held == 120
    del owner
    assert shares.held == 0
    assert hoard(shares, client("a")) == 768


def test_the_process_itself_may_have_all(shares: Shares) -> None:
    assert hoard(shares, NOBODY) == 1024


def test_a_client_is_told_to_another_process() -> None:
    named = client("p1", "p2")
    message = tenant_to_wire(named)
    assert message is not None
    assert tenant_from_wire(message) == tenant_from_wire(message.SerializeToString()) == named
    assert tenant_to_wire(NOBODY) is None
    assert tenant_from_wire(None) == tenant_from_wire(b"\xff") == NOBODY
    with acting_for(named.within(client("outer"))):
        assert [level.id for level in tenant().levels] == ["outer", "p1", "p2"]


def test_what_others_call_their_clients_is_bounded() -> None:
    levels = [wire.Tenant(id="i" * 1000, title="a\x1b[31m\nb") for _ in range(100)]
    named = tenant_from_wire(wire.OnBehalfOf(tenants=levels))
    assert named.levels == (Level("i" * 200, "a[31mb"),) * 8
