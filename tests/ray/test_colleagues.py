"""What other hosts do for one, with hosts that a test stands for."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, cast

import grpc
import pytest

pytest.importorskip("ray", reason="needs Ray, which 'make ray' installs in an environment of its own")

from nnhal_ray.messages import REQUEST_ID, Call, ProtocolCall, ProtocolReply, Reply
from nnhal_ray.sequences import SequenceName, SequenceTurn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Ray's own
    from ray.serve._private.haproxy import HAPROXY_CONFIG_TEMPLATE

    from nnhal_ray import colleagues as module
    from nnhal_ray.colleagues import Colleagues
    from nnhal_ray.fan_out import FanOut
    from nnhal_ray.worker_setup import OtherRayError, balancer_template

CALL = ProtocolCall("ModelInfer", b"x", {REQUEST_ID: "r1"})
GONE = ProtocolReply(code=grpc.StatusCode.UNAVAILABLE, details="Socket closed", is_unanswered=True)
REFUSED = ProtocolReply(code=grpc.StatusCode.INVALID_ARGUMENT, details="wrong shape")
NAME = SequenceName("sum", "7")


class Hosts:
    """The other hosts: what they answer to one question after the other."""

    def __init__(self, *answers: Reply | None) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, ...]] = []

    def options(self, **_: object) -> Hosts:
        return self

    async def remote(self, *arguments: object) -> Reply | None:
        self.asked.append(arguments)
        return self.answers.pop(0)

    async def tell(self, method: str, *arguments: object, seconds: float = 0) -> list[Any]:
        self.asked.append((method, *arguments))
        return [self.answers.pop(0)] if self.answers else []


def host(others: Hosts, *own: Reply, is_ready: bool = True, share: bool = True) -> Colleagues:
    """One host, whose framework answers so."""
    answers = list(own)

    async def forward(_: Call) -> Reply:
        return answers.pop(0)

    async def ready(_: float) -> bool:
        return is_ready

    return Colleagues("n1", cast(Any, others), cast(FanOut, others), forward, ready, share)


def test_another_host_answers_what_this_one_cannot() -> None:
    others = Hosts(GONE, None, ProtocolReply(b"y"))
    one = host(others, is_ready=False)
    assert asyncio.run(one.again(CALL, GONE)) == ProtocolReply(b"y")
    assert others.asked == [("n1", CALL)] * 3
    assert 'nnhal_ray_asked_again_total{outcome="answered"} 1' in one.metrics


def test_a_host_alone_answers_once_its_framework_serves_again() -> None:
    assert asyncio.run(host(Hosts(), GONE, REFUSED, share=False).again(CALL, GONE)) == REFUSED


def test_a_request_that_nobody_answers_in_time_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SECONDS", 0.0)
    one = host(Hosts())
    assert asyncio.run(one.again(CALL, GONE)) == GONE
    assert 'nnhal_ray_asked_again_total{outcome="failed"} 1' in one.metrics


def test_a_host_does_not_answer_for_itself() -> None:
    assert asyncio.run(host(Hosts()).answer_for("n1", CALL)) is None
    assert asyncio.run(host(Hosts(), ProtocolReply(b"y")).answer_for("n2", CALL)) == ProtocolReply(b"y")


def test_a_sequence_runs_where_it_starts_and_comes_twice_to_nobody() -> None:
    others = Hosts()
    one = host(others, ProtocolReply(b"1"), ProtocolReply(b"2"))

    async def turns() -> list[Reply]:
        first = await one.in_sequence(SequenceTurn(NAME, True, False), ProtocolCall("ModelInfer", b""))
        turn = SequenceTurn(NAME, False, False)
        return [first, *[await one.in_sequence(turn, CALL) for _ in range(2)]]

    first, second, repeated = asyncio.run(turns())
    assert (first, second) == (ProtocolReply(b"1"), ProtocolReply(b"2"))
    assert isinstance(repeated, ProtocolReply) and "came twice" in repeated.details
    assert others.asked == [("forget_sequence", NAME, "n1")]
    assert "nnhal_ray_lost_sequences_total 1" in one.metrics


def test_a_sequence_that_no_host_has_is_lost() -> None:
    found = asyncio.run(host(Hosts(None)).in_sequence(SequenceTurn(NAME, False, False), CALL))
    assert isinstance(found, ProtocolReply) and "is lost: no host has its state" in found.details


def test_a_sequence_is_lost_with_its_framework() -> None:
    one = host(Hosts(), ProtocolReply(b"1"), GONE)

    async def turns() -> Reply:
        await one.in_sequence(SequenceTurn(NAME, True, False), ProtocolCall("ModelInfer", b""))
        return await one.in_sequence(SequenceTurn(NAME, False, False), CALL)

    found = asyncio.run(turns())
    assert isinstance(found, ProtocolReply) and "its host has ended while it ran" in found.details


def test_haproxy_s_own_ports_are_the_loopback_s_and_another_template_is_refused() -> None:
    changed = balancer_template(HAPROXY_CONFIG_TEMPLATE)
    assert "bind :" not in changed and "bind *:" not in changed
    assert changed.count("disable-l7-retry") == 2
    with pytest.raises(OtherRayError, match="has no line"):
        balancer_template(changed)
