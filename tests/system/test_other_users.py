"""Another user of this host, at every port of a testbed as ``nnhal up`` starts it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.far_devices import far_device
from tests.support.other_users import GUEST, OTHER_USER, as_other_user, needs_root
from tests.support.showcase import Showcase, showcase

pytestmark = needs_root
OVER_HTTP = """
answers = []
for url, form, headers in json.loads(sys.argv[1]):
    data = None if form is None else form.encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
            answers.append((answer.status, answer.read().decode()))
    except urllib.error.HTTPError as error:
        answers.append((error.code, error.read().decode()))
print(json.dumps(answers))
"""
OVER_GRPC = """
answers = []
with grpc.insecure_channel(sys.argv[1]) as channel:
    for method in sys.argv[2:]:
        try:
            channel.unary_unary(method, bytes, bytes)(b"", timeout=30)
            answers.append(("OK", ""))
        except grpc.RpcError as error:
            answers.append((error.code().name, error.details()))
print(json.dumps(answers))
"""
OVER_UNIX = """
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
    print(json.dumps("connected"))
except OSError as error:
    print(json.dumps(type(error).__name__))
"""
SERVICE = "/inference.GRPCInferenceService/"


@pytest.fixture(scope="module", params=[1, 2], ids=["own fronts", "front workers"])
def testbed(request: pytest.FixtureRequest) -> Iterator[Showcase]:
    with pytest.MonkeyPatch.context() as patch:
        for process in ("SERVICE", "DASHBOARD"):
            patch.setenv(f"NNHAL_{process}_ALLOWED_UIDS", f"[{GUEST}]")
        with showcase(front_workers=request.param) as started:
            yield started


def asked(*requests: tuple[str, str | None], uid: int = OTHER_USER) -> list[tuple[int, str]]:
    """Return what another user is answered over HTTP: address and body, if it posts."""
    forged = {"X-Forwarded-For": "127.0.0.1"}
    given = json.dumps([(url, body, forged) for url, body in requests])
    answers: list[tuple[int, str]] = as_other_user(
        "import json, sys, urllib.request, urllib.error", OVER_HTTP, given, uid=uid
    )
    return answers


def over_grpc(address: str, *methods: str, uid: int = OTHER_USER) -> list[tuple[str, str]]:
    """Return what another user is answered over gRPC."""
    answers: list[tuple[str, str]] = as_other_user(
        "import json, sys, grpc, grpc._channel", OVER_GRPC, address, *methods, uid=uid
    )
    return answers


def addresses(testbed: Showcase) -> dict[str, str]:
    return dict(line.split(": ") for line in testbed.process("framework").addresses)


def test_another_user_neither_sees_the_dashboard_nor_acts_there(testbed: Showcase, tmp_path: Path) -> None:
    form = re.search(r"name='form_token' value='([^']*)'", httpx.get(f"{testbed.dashboard}/devices").text)
    assert form is not None
    pid = testbed.process("cpu_ref").pid
    secret = tmp_path / "secret"
    secret.write_text("mine\n")
    options = f"endpoint=tcp://127.0.0.1:9%0Atoken_file={secret}"
    answers = asked(
        *((f"{testbed.dashboard}{path}", None) for path in ("/", "/devices", "/login", "/live?f=overview.problems")),
        (f"{testbed.dashboard}/processes/kill", f"process=cpu_ref&form_token={form[1]}"),
        (f"{testbed.dashboard}/devices/start", f"driver=remote&options={options}&form_token={form[1]}"),
    )
    assert [status for status, _ in answers] == [403] * len(answers), answers
    assert all(f"user {OTHER_USER} of this host sent this request" in text for _, text in answers)
    assert testbed.process("cpu_ref").pid == pid


def test_another_user_learns_of_the_framework_only_that_it_lives(testbed: Showcase) -> None:
    known = addresses(testbed)
    http, metrics = f"http://{known['http']}/v2", f"http://{known['metrics']}/metrics"
    answers = asked(
        (f"{http}/models/digits", None),
        (f"{http}/repository/models/digits/unload", "{}"),
        (f"{http}/logging", '{"log_verbose_level": 1}'),
        (metrics, None),
    )
    assert [status for status, _ in answers] == [403] * len(answers), answers
    assert [status for status, _ in asked((f"{http}/health/live", None), (f"{http}/health/ready", None))] == [200, 200]
    open_to_all, *closed = over_grpc(
        known["grpc"],
        *(f"{SERVICE}{name}" for name in ("ServerLive", "ServerMetadata", "ModelInfer", "RepositoryIndex")),
    )
    assert open_to_all[0] == "OK"
    assert [status for status, _ in closed] == ["PERMISSION_DENIED"] * len(closed), closed
    assert httpx.get(f"{http}/models/digits/ready").status_code == 200
    assert httpx.get(metrics).status_code == 200


def test_another_user_does_not_open_the_socket_of_inference_whatever_its_directory(testbed: Showcase) -> None:
    path = testbed.directory / "framework/inference.sock"
    for reached in (testbed.directory.parent, testbed.directory, path.parent):
        reached.chmod(0o755)
    said: Any = as_other_user("import json, socket, sys", OVER_UNIX, path)
    assert said == "PermissionError"


def test_another_user_opens_no_session_with_a_device_that_listens_here(short_path: Path) -> None:
    with far_device(short_path) as far:
        ((status, said),) = over_grpc(far.address, "/nnhal.v1.WireService/OpenSession")
        assert status == "PERMISSION_DENIED"
        assert f"user {OTHER_USER} of this host" in said


def test_a_user_who_is_allowed_is_served_as_the_owner_is(testbed: Showcase) -> None:
    known = addresses(testbed)
    answers = asked((f"http://{known['http']}/v2/models/digits", None), (testbed.dashboard, None), uid=GUEST)
    assert [status for status, _ in answers] == [200, 200], answers
    assert over_grpc(known["grpc"], f"{SERVICE}RepositoryIndex", uid=GUEST)[0][0] == "OK"
