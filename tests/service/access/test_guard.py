"""Tokens, roles and rates that are checked before a call is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnhal.inference import grpc_service_pb2 as wire
from nnhal_hosting.access import AccessRole, read_tokens
from nnhal_service.access import Guard, Rate, RateLimits
from nnhal_service.access.roles import role_for_call, role_for_request
from nnhal_service.serving.errors import ErrorKind, ServingError, TooLargeError
from nnhal_service.serving.history.refused_calls import OTHERS, RefusedCalls
from tests.support.tokens import token_file

PEER = "ipv4:127.0.0.1:4000"

SERVICE = wire.DESCRIPTOR.services_by_name["GRPCInferenceService"]


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    return Guard(read_tokens(token_file(tmp_path, eye="view", ci="infer", boss="admin")))


def refusal(guard: Guard, needed: AccessRole, authorization: str) -> ServingError:
    with pytest.raises(ServingError) as caught:
        guard.admit(needed, authorization, PEER)
    return caught.value


def test_a_token_lets_in_for_what_its_role_allows(guard: Guard) -> None:
    assert guard.admit(AccessRole.INFER, "Bearer ci-token", PEER).name == "ci"
    assert guard.admit(AccessRole.INFER, "bearer boss-token", PEER).name == "boss"
    assert guard.admit(AccessRole.ADMIN, "Bearer boss-token", PEER).role == AccessRole.ADMIN
    assert guard.admit(AccessRole.VIEW, "Bearer eye-token", PEER).role == AccessRole.VIEW


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer nobody", "Basic ci-token", "ci-token"])
def test_a_client_without_a_token_is_refused(guard: Guard, authorization: str) -> None:
    error = refusal(guard, AccessRole.INFER, authorization)
    assert error.kind == ErrorKind.UNAUTHENTICATED
    assert "nobody" not in error.message


def test_a_role_that_is_too_low_is_an_error_that_says_so(guard: Guard) -> None:
    error = refusal(guard, AccessRole.ADMIN, "Bearer ci-token")
    assert error.kind == ErrorKind.PERMISSION_DENIED
    assert error.message == "token 'ci' has role infer, expected admin"
    assert refusal(guard, AccessRole.INFER, "Bearer eye-token").message == "token 'eye' has role view, expected infer"


def test_what_a_token_allows_beyond_a_call_can_be_asked(guard: Guard) -> None:
    tokens = ("eye-token", "ci-token", "boss-token", "nobody")
    assert [guard.allows(AccessRole.INFER, f"Bearer {token}") for token in tokens] == [False, True, True, False]
    assert Guard().allows(AccessRole.ADMIN, "")


def test_what_is_refused_is_counted_by_reason_and_by_token_or_host(tmp_path: Path) -> None:
    refused = RefusedCalls()
    guard = Guard(read_tokens(token_file(tmp_path, ci="infer")), refused=refused)
    for error, authorization, peer in (
        (refusal(guard, AccessRole.INFER, "Bearer no"), "Bearer no", "ipv4:10.0.0.7:5000"),
        (refusal(guard, AccessRole.INFER, ""), "", "ipv4:10.0.0.7:6000"),
        (refusal(guard, AccessRole.ADMIN, "Bearer ci-token"), "Bearer ci-token", PEER),
        (ServingError(ErrorKind.NOT_FOUND, "no model"), "Bearer ci-token", PEER),
        (TooLargeError(ErrorKind.INVALID_ARGUMENT, "too long"), "Bearer ci-token", PEER),
        (ServingError(ErrorKind.UNAVAILABLE, "a device is gone"), "Bearer ci-token", PEER),
        (RuntimeError("a bug"), "Bearer ci-token", PEER),
    ):
        guard.note_refused(error, authorization, peer)
    assert {key: each.calls for key, each in refused.counts.items()} == {
        ("no known token", "host: 10.0.0.7"): 2,
        ("not allowed", "token: ci"): 1,
        ("not found", "token: ci"): 1,
        ("too large", "token: ci"): 1,
    }


def test_clients_that_are_very_many_are_counted_together() -> None:
    refused = RefusedCalls()
    for number in range(1000):
        refused.add("not found", f"host: {number}")
    assert len(refused.counts) < 300
    assert sum(each.calls for each in refused.counts.values()) == 1000
    assert refused.counts["not found", OTHERS].calls > 700
    assert sum(refused.take().values()) == 1000 and not refused.has_counted


def test_health_is_for_everybody(guard: Guard) -> None:
    assert guard.admit(AccessRole.NOBODY, "", PEER).name == ""


def test_a_client_that_calls_too_often_is_told_to_come_later() -> None:
    now = [0.0]
    guard = Guard(rates=RateLimits(Rate(per_second=2, burst=3), lambda: now[0]))
    for _ in range(3):
        guard.admit(AccessRole.INFER, "", PEER)
    assert refusal(guard, AccessRole.INFER, "").kind == ErrorKind.RESOURCE_EXHAUSTED
    guard.admit(AccessRole.INFER, "", "ipv4:10.0.0.2:4000")
    now[0] = 0.5
    guard.admit(AccessRole.INFER, "", "ipv4:127.0.0.1:4001")
    assert refusal(guard, AccessRole.INFER, "").kind == ErrorKind.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    ("peers", "others"),
    [
        (
            ["ipv4:127.0.0.1:1", "ipv4:127.9.8.7:2", "ipv6:[::1]:3", "ipv6:%5B::1%5D:4", "unix:", "unix:/run/a.sock"],
            ["ipv4:10.0.0.1:1"],
        ),
        (["ipv6:[::ffff:127.0.0.5]:1", "ipv6:%5B::ffff:7f00:1%5D:1", "ipv4:127.0.0.1:1"], ["ipv6:[fd00::1]:1"]),
        (["ipv4:10.0.0.1:1", "ipv4:10.0.0.1:2", "ipv6:[::ffff:10.0.0.1]:1"], ["ipv4:10.0.0.2:1", "ipv4:127.0.0.1:1"]),
        (
            ["ipv6:[2001:db8:1:2::1]:1", "ipv6:%5B2001:db8:1:2:ffff::9%5D:1", "ipv6:[2001:DB8:1:2:0::7%25eth0]:3"],
            ["ipv6:[2001:db8:1:3::1]:1"],
        ),
    ],
)
def test_a_host_is_one_client_by_whatever_address(peers: list[str], others: list[str]) -> None:
    guard = Guard(rates=RateLimits(Rate(per_second=1e-6, burst=len(peers))))
    for peer in peers:
        guard.admit(AccessRole.INFER, "", peer)
    for peer in peers:
        with pytest.raises(ServingError, match="too many requests"):
            guard.admit(AccessRole.INFER, "", peer)
    for peer in others:
        guard.admit(AccessRole.INFER, "", peer)


def test_a_token_with_the_name_of_a_host_is_another_client(tmp_path: Path) -> None:
    rates = RateLimits(Rate(per_second=1e-6, burst=1))
    named = Guard(read_tokens(token_file(tmp_path, **{"ipv4:10.0.0.1": "infer"})), rates)
    named.admit(AccessRole.INFER, "Bearer ipv4:10.0.0.1-token", "ipv4:10.0.0.9:1")
    Guard(rates=rates).admit(AccessRole.INFER, "", "ipv4:10.0.0.1:1")


def test_no_number_of_clients_has_more_than_the_table_of_them_holds() -> None:
    now = [0.0]
    rates = RateLimits(Rate(per_second=1, burst=2), lambda: now[0])
    peers = [f"ipv6:[2001:db8:0:{number:x}::1]:1" for number in range(6000)]
    guard = Guard(rates=rates)
    admitted = 0
    for peer in [*peers, *peers, *peers]:
        try:
            guard.admit(AccessRole.INFER, "", peer)
        except ServingError:
            continue
        admitted += 1
    assert admitted == 2 * 4097, "4,096 have buckets of their own, and all others share one"
    now[0] = 2
    guard.admit(AccessRole.INFER, "", "ipv6:[2001:db8:1::1]:1")
    guard.admit(AccessRole.INFER, "", "ipv6:[2001:db8:1::1]:1")


def test_a_call_without_a_role_of_its_own_needs_the_highest() -> None:
    """As one that a later version adds."""
    assert role_for_call("/inference.GRPCInferenceService/ModelForget") == AccessRole.ADMIN
    assert role_for_request("POST", "/v2/forget") == AccessRole.ADMIN
    for method in SERVICE.methods:
        role = role_for_call(f"/{SERVICE.full_name}/{method.name}")
        assert (role == AccessRole.ADMIN) == (
            method.name in ("RepositoryModelLoad", "RepositoryModelUnload", "TraceSetting", "LogSettings")
        )


@pytest.mark.parametrize(
    ("call", "role"),
    [
        ("/grpc.health.v1.Health/Check", AccessRole.NOBODY),
        ("/inference.GRPCInferenceService/ServerReady", AccessRole.NOBODY),
        ("/inference.GRPCInferenceService/ModelInfer", AccessRole.INFER),
        ("/inference.GRPCInferenceService/ModelStreamInfer", AccessRole.INFER),
        ("/inference.GRPCInferenceService/SystemSharedMemoryRegister", AccessRole.INFER),
        ("/inference.GRPCInferenceService/ServerMetadata", AccessRole.VIEW),
        ("/inference.GRPCInferenceService/RepositoryIndex", AccessRole.VIEW),
        ("/inference.GRPCInferenceService/RepositoryModelLoad", AccessRole.ADMIN),
        ("/inference.GRPCInferenceService/TraceSetting", AccessRole.ADMIN),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", AccessRole.VIEW),
    ],
)
def test_what_calls_need(call: str, role: AccessRole) -> None:
    assert role_for_call(call) == role


@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("GET", "/v2/health/live", AccessRole.NOBODY),
        ("GET", "/v2", AccessRole.VIEW),
        ("GET", "/v2/models/m/versions/1/stats", AccessRole.VIEW),
        ("GET", "/v2/systemsharedmemory/status", AccessRole.VIEW),
        ("POST", "/v2/systemsharedmemory/region/r/register", AccessRole.INFER),
        ("POST", "/v2/models/m/infer", AccessRole.INFER),
        ("GET", "/v2/models/m/trace/setting", AccessRole.VIEW),
        ("POST", "/v2/models/m/trace/setting", AccessRole.ADMIN),
        ("POST", "/v2/trace/setting", AccessRole.ADMIN),
        ("POST", "/v2/repository/index", AccessRole.VIEW),
        ("POST", "/v2/repository/models/m/unload", AccessRole.ADMIN),
        ("GET", "/v2/logging", AccessRole.VIEW),
        ("POST", "/v2/logging", AccessRole.ADMIN),
        ("GET", "/metrics", AccessRole.VIEW),
        ("GET", "/admin/anything", AccessRole.ADMIN),
    ],
)
def test_what_requests_need(method: str, path: str, role: AccessRole) -> None:
    assert role_for_request(method, path) == role
