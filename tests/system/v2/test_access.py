"""Access to the servers: TLS, tokens with roles, rates, and what the server refuses to do in the open."""

from __future__ import annotations

import queue
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import gevent.ssl  # type: ignore[import-untyped] # it has stubs of their own
import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.support.certificates import Pair, authority, signed
from tests.support.model_server import Devices, Served, addresses, arguments, model_server
from tests.support.repositories import numbers, onnx_file, write
from tests.support.tokens import bearer, token_file
from tests.support.tritonclients import Triton, input_of, status_of

APIS = {"grpc": tritonclient.grpc, "http": tritonclient.http}
needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small")
    write(folder, "tanh", {"1/model.onnx": onnx_file()})
    return folder


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Pair, Pair]:
    """A folder, and two authorities that do not know each other."""
    folder = tmp_path_factory.mktemp("certificates")
    return folder, authority(folder, "known"), authority(folder, "stranger")


def infer(client: Any, api: Any, **options: Any) -> Any:
    return client.infer("tanh", [input_of(api, "x", numbers())], **options).as_numpy("y")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(InferenceServerException) as caught:
        call()
    return status_of(caught.value)


@pytest.fixture(scope="module")
def closed(device_processes: Devices, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with model_server(
        device_processes,
        repository,
        "--tokens",
        str(token_file(tmp_path_factory.mktemp("tokens"), eye="view", ci="infer", boss="admin")),
    ) as process:
        yield process


@pytest.fixture(params=APIS)
def guarded(request: pytest.FixtureRequest, closed: Served) -> Iterator[Triton]:
    with Triton(request.param, APIS[request.param], getattr(closed, request.param)) as triton:
        yield triton


def test_a_token_lets_in_for_what_its_role_allows(guarded: Triton) -> None:
    client = guarded.client
    np.testing.assert_allclose(infer(client, guarded.api, headers=bearer("ci")), np.tanh(numbers()), atol=1e-5)
    assert client.get_model_repository_index(headers=bearer("ci"))
    denied = "PERMISSION_DENIED" if guarded.name == "grpc" else "403"
    assert refused(lambda: client.load_model("tanh", headers=bearer("ci"))) == denied
    assert refused(lambda: client.unload_model("tanh", headers=bearer("ci"))) == denied
    assert refused(lambda: client.update_log_settings({"log_info": True}, headers=bearer("ci"))) == denied
    change = {"trace_rate": "1"}
    assert refused(lambda: client.update_trace_settings(settings=change, headers=bearer("ci"))) == denied
    client.load_model("tanh", headers=bearer("boss"))
    infer(client, guarded.api, headers=bearer("boss"))


def test_whoever_may_view_sees_everything_and_changes_nothing(guarded: Triton) -> None:
    client, eye = guarded.client, bearer("eye")
    for read in (
        client.get_server_metadata,
        client.get_model_repository_index,
        client.get_inference_statistics,
        client.get_trace_settings,
        client.get_log_settings,
    ):
        assert read(headers=eye)
    assert client.get_model_config("tanh", headers=eye)
    denied = "PERMISSION_DENIED" if guarded.name == "grpc" else "403"
    assert refused(lambda: infer(client, guarded.api, headers=eye)) == denied
    assert refused(lambda: client.load_model("tanh", headers=eye)) == denied
    assert refused(lambda: client.register_system_shared_memory("r", "/k", 1, headers=eye)) == denied
    assert refused(lambda: client.update_log_settings({"log_info": True}, headers=eye)) == denied


def test_whoever_may_view_reads_the_metrics(closed: Served) -> None:
    metrics = f"http://{addresses(closed.child)['metrics']}/metrics"
    assert httpx.get(metrics).status_code == 401
    assert "nv_inference_request_success" in httpx.get(metrics, headers=bearer("eye")).text


def test_whoever_has_no_token_learns_only_whether_the_server_lives(guarded: Triton) -> None:
    client = guarded.client
    assert client.is_server_live()
    assert client.is_server_ready()
    if guarded.name == "grpc":
        with grpc.insecure_channel(guarded.address) as channel:
            health = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert health.status == health_pb2.HealthCheckResponse.SERVING
    unknown = "UNAUTHENTICATED" if guarded.name == "grpc" else "401"
    for headers in (None, bearer("nobody")):
        assert refused(lambda headers=headers: infer(client, guarded.api, headers=headers)) == unknown  # type: ignore[misc]
        assert refused(lambda headers=headers: client.get_server_metadata(headers=headers)) == unknown  # type: ignore[misc]
        assert refused(lambda headers=headers: client.get_model_metadata("tanh", headers=headers)) == unknown  # type: ignore[misc]
        assert refused(lambda headers=headers: client.load_model("tanh", headers=headers)) == unknown  # type: ignore[misc]


def test_a_stream_needs_a_token_too(closed: Served) -> None:
    with Triton("grpc", tritonclient.grpc, closed.grpc) as triton:

        def answer(headers: dict[str, str]) -> tuple[Any, Any]:
            answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
            triton.client.start_stream(lambda result, error: answers.put((result, error)), headers=headers)
            with suppress(InferenceServerException):  # it may have been refused before this
                triton.client.async_stream_infer("tanh", triton.inputs({"x": numbers()}))
            first = answers.get(timeout=30)
            triton.client.stop_stream()
            return first

        assert status_of(answer({})[1]) == "UNAUTHENTICATED"
        assert answer(bearer("ci"))[1] is None


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/v2", "/v2/models/tanh", "/admin", "/v2/models/%2e%2e/ready", "//v2"]
)
def test_no_path_leads_around_the_guard(closed: Served, path: str) -> None:
    with httpx.Client(base_url=f"http://{closed.http}") as client:
        assert client.get(path).status_code == 401
        assert client.get("/v2", headers=bearer("ci")).status_code == 200


def test_whoever_calls_too_often_is_told_to_come_later(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, "--rate-limit", "5") as limited:
        for name, api in APIS.items():
            with Triton(name, api, getattr(limited, name)) as triton:
                statuses = []
                for _ in range(200):
                    try:
                        triton.client.get_server_metadata()
                    except InferenceServerException as error:
                        statuses.append(status_of(error))
                assert set(statuses) == {"RESOURCE_EXHAUSTED" if name == "grpc" else "429"}
                assert triton.client.is_server_live()


def test_whoever_begins_a_request_and_does_not_go_on_is_not_waited_for(
    device_processes: Devices, repository: Path
) -> None:
    options = ("--http-stalled-secs", "0.5", "--http-idle-secs", "2", "--http-max-connections", "3")
    with model_server(device_processes, repository, *options) as impatient, ExitStack() as stack:
        for name in ("http", "metrics"):
            host, _, port = addresses(impatient.child)[name].rpartition(":")
            held = [stack.enter_context(socket.create_connection((host, int(port)), 60)) for _ in range(3)]
            held[0].sendall(b"GET / HTTP/1.1\r\nHost:")
            with socket.create_connection((host, int(port)), 60) as fourth:
                assert fourth.recv(65536).startswith(b"HTTP/1.1 503 ")
            assert held[0].recv(65536).startswith(b"HTTP/1.1 408 ")
            assert held[1].recv(65536) == b""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_page_of_a_stranger_is_refused_whatever_its_name_has_come_to_mean(
    device_processes: Devices, repository: Path, workers: str
) -> None:
    options = ("--front-workers", workers, "--allowed-host", "npu.example")
    with model_server(device_processes, repository, *options) as served, httpx.Client() as browser:
        port, load = served.port, f"http://{served.http}/v2/repository/models/tanh/load"
        for host in ("evil.example", f"evil.example:{port}"):
            answer = browser.post(load, headers={"Host": host, "Origin": f"http://{host}"})
            assert answer.status_code == 403
            assert "--allowed-host" in answer.json()["error"]
        metrics = f"http://{addresses(served.child)['metrics']}/metrics"
        assert browser.get(metrics, headers={"Host": "evil.example"}).status_code == 403
        assert browser.get(metrics).status_code == 200
        assert browser.post(load, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"npu.example:{port}"):
            assert browser.post(load, headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200
        with Triton("http", tritonclient.http, served.http) as triton:
            triton.client.load_model("tanh")
            np.testing.assert_allclose(infer(triton.client, triton.api), np.tanh(numbers()), atol=1e-5)


@needs_openssl
def test_tls(device_processes: Devices, repository: Path, authorities: tuple[Path, Pair, Pair]) -> None:
    folder, known, stranger = authorities
    mine = signed(folder, "server", known)
    options = ("--tls-certificate", str(mine.certificate), "--tls-key", str(mine.key))
    with model_server(device_processes, repository, *options) as secure:
        speaks_tls(secure, known)
        assert not gets_in_by_grpc(secure, stranger.certificate)
        assert not gets_in_by_http(secure, ssl.create_default_context(cafile=stranger.certificate))
        with Triton("grpc", tritonclient.grpc, secure.grpc) as plain, pytest.raises(InferenceServerException):
            plain.client.is_server_live()
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://{secure.http}/v2/health/live")


def speaks_tls(secure: Served, known: Pair) -> None:
    client = tritonclient.grpc.InferenceServerClient(secure.grpc, ssl=True, root_certificates=str(known.certificate))
    np.testing.assert_allclose(infer(client, tritonclient.grpc), np.tanh(numbers()), atol=1e-5)
    client.close()
    options = {"ca_certs": str(known.certificate)}
    factory = gevent.ssl.create_default_context
    client = tritonclient.http.InferenceServerClient(
        secure.http, ssl=True, ssl_options=options, ssl_context_factory=lambda: factory(cafile=str(known.certificate))
    )
    np.testing.assert_allclose(infer(client, tritonclient.http), np.tanh(numbers()), atol=1e-5)
    client.close()


@needs_openssl
def test_mutual_tls(device_processes: Devices, repository: Path, authorities: tuple[Path, Pair, Pair]) -> None:
    folder, known, stranger = authorities
    mine, theirs, other = (
        signed(folder, name, by) for name, by in (("server2", known), ("client", known), ("other", stranger))
    )
    options = ("--tls-certificate", str(mine.certificate), "--tls-key", str(mine.key))
    with model_server(
        device_processes, repository, *options, "--tls-client-authority", str(known.certificate)
    ) as secure:
        context = ssl.create_default_context(cafile=known.certificate)
        assert not gets_in_by_grpc(secure, known.certificate)
        assert not gets_in_by_http(secure, context)
        for pair, may in ((theirs, True), (other, False)):
            assert gets_in_by_grpc(secure, known.certificate, pair) is may
            context.load_cert_chain(pair.certificate, pair.key)
            assert gets_in_by_http(secure, context) is may


def gets_in_by_grpc(secure: Served, trusted: Path, client: Pair | None = None) -> bool:
    key, certificate = (client.key.read_bytes(), client.certificate.read_bytes()) if client else (None, None)
    credentials = grpc.ssl_channel_credentials(trusted.read_bytes(), key, certificate)
    with grpc.secure_channel(secure.grpc, credentials) as channel:
        try:
            call = channel.unary_unary("/inference.GRPCInferenceService/ServerLive", bytes, bytes)
            return bool(call(b"", timeout=30) == b"\x08\x01")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            return False


def gets_in_by_http(secure: Served, context: ssl.SSLContext) -> bool:
    try:
        return httpx.get(f"https://{secure.http}/v2/health/live", verify=context).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ("--http-host", "0.0.0.0"),
            "can be reached by other hosts: expected --tls-certificate and --tokens",
        ),
        (("--grpc-host", "0.0.0.0"), "can be reached by other hosts"),
        (("--tls-certificate", "nothing.pem"), "--tls-certificate and --tls-key go together"),
        (("--tls-certificate", "nothing.pem", "--tls-key", "nothing.key"), "nothing.pem"),
        (("--tokens", "nothing.toml"), "nothing.toml"),
        (("--rate-limit", "-1"), "rate_limit"),
        (("--allowed-host", "http://npu.example"), "without scheme and port"),
        (("--http-max-input-size", "0"), "http_max_input_size"),
        (("--request-memory", "-1"), "request_memory"),
        (("--max-models", "-1"), "max_models"),
        (("--allow-http=perhaps",), "expected true or false"),
        (("--http-host", "nowhere.invalid", "--insecure"), "nnhal serve: "),
    ],
)
def test_settings_that_are_not_safe_or_not_right_are_refused_at_the_start(
    device_processes: Devices, repository: Path, short_path: Path, options: tuple[str, ...], words: str
) -> None:
    command = [sys.executable, "-m", "nnhal_service", *arguments(short_path, repository, device_processes, *options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_insecure_says_that_it_is_meant(device_processes: Devices, repository: Path) -> None:
    with model_server(device_processes, repository, "--http-host", "0.0.0.0", "--insecure") as open_to_all:
        port = open_to_all.port
        live = f"http://127.0.0.1:{port}/v2/health/live"
        assert httpx.get(live).json() == {"live": True}
        assert httpx.get(live, headers={"Host": f"framework:{port}"}).json() == {"live": True}
        assert httpx.get(live, headers={"Host": "evil.example"}).status_code == 403
