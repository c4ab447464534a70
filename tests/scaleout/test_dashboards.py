"""How often a host asks the others for their dashboards."""

from __future__ import annotations

import asyncio

from nnhal_ray.dashboards import SETTLED_CHECKS, Named, OtherDashboards

ALONE = [("one", "http://a")]
BOTH = [("one", "http://a"), ("two", "http://b")]


class Hosts:
    """Hosts whose answer a test lays down, and what the own dashboard is told."""

    def __init__(self) -> None:
        self.answer: Named | Exception = ALONE
        self.asked = 0
        self.told: list[Named] = []
        self.dashboards = OtherDashboards(self._ask, self.told.append)

    async def _ask(self) -> Named:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def check(self, times: int = 1) -> None:
        for _ in range(times):
            asyncio.run(self.dashboards.check())


def test_hosts_are_asked_at_each_check_until_their_answer_settles() -> None:
    hosts = Hosts()
    hosts.check()
    hosts.answer = BOTH[::-1]
    hosts.check(2)
    assert hosts.asked == 3
    assert hosts.told == [ALONE, BOTH, BOTH]


def test_settled_hosts_are_asked_seldom_and_again_at_each_check_after_a_change() -> None:
    hosts = Hosts()
    hosts.check(2)
    hosts.check(SETTLED_CHECKS - 1)
    assert hosts.asked == 2
    hosts.answer = BOTH
    hosts.check(2)
    assert hosts.asked == 4
    assert hosts.told[-1] == BOTH


def test_hosts_of_which_one_has_no_address_yet_are_asked_at_each_check() -> None:
    hosts = Hosts()
    hosts.answer = [*ALONE, ("two", "")]
    hosts.check(5)
    assert hosts.asked == 5


def test_a_host_that_does_not_answer_leaves_what_was_known() -> None:
    hosts = Hosts()
    hosts.check()
    hosts.answer = TimeoutError()
    hosts.check(3)
    assert hosts.asked == 4
    assert hosts.told == [ALONE]
