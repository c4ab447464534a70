"""Users of a device over TCP."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nnhal_hosting.supervision import Child
from tests.support.certificates import Pair, authority, signed
from tests.support.far_devices import Served, connection_to, far_device
from tests.support.idle_calls import complete, half_sent, idle_calls, refused
from tests.support.processes import WARM
from tests.support.tokens import token_file
from tests.support.waiting import wait_until


@dataclass(frozen=True)
class Secrets:
    """Files of certificates and tokens."""

    folder: Path
    authority: Pair
    server: Pair
    client: Pair
    tokens: Path

    @property
    def token(self) -> str:
        return self.written("ci-token")

    def written(self, token: str) -> str:
        path = self.folder / f"{token}.txt"
        path.write_text(f"{token}\n")
        return str(path)

    @property
    def trust(self) -> dict[str, str]:
        """The options of a client that knows the authority."""
        return {"tls_ca": str(self.authority.certificate)}


@pytest.fixture(scope="module")
def secrets() -> Iterator[Secrets]:
    with tempfile.TemporaryDirectory(prefix="nnhal-") as path:
        folder = Path(path)
        own = authority(folder, "own")
        pairs = signed(folder, "server", own), signed(folder, "client", own)
        yield Secrets(folder, own, *pairs, token_file(folder, ci="infer", watcher="view"))


@pytest.fixture(scope="module")
def far(secrets: Secrets) -> Iterator[Served]:
    """A device that asks for TLS and tokens."""
    pair = secrets.server
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key), "--tokens", str(secrets.tokens)]
    with far_device(secrets.folder, *options) as served:
        yield served


def refusal(far: Served, **options: str) -> str:
    with pytest.raises(OSError) as caught, connection_to(far, **options):
        pass
    return str(caught.value)


def test_a_token_over_tls_opens_a_session_in_its_name(far: Served, secrets: Secrets) -> None:
    with connection_to(far, token_file=secrets.token, **secrets.trust), far.admin() as admin:
        names = [session.client_name for session in admin.process().sessions]
    assert any(name.endswith(" as ci") for name in names), names


def test_an_unknown_token_is_refused(far: Served, secrets: Secrets) -> None:
    said = refusal(far, token_file=secrets.written("another-token"), **secrets.trust)
    assert "UNAUTHENTICATED" in said
    assert "another-token" not in said


def test_no_token_is_refused(far: Served, secrets: Secrets) -> None:
    assert "UNAUTHENTICATED" in refusal(far, **secrets.trust)


def test_a_token_that_may_only_look_is_refused(far: Served, secrets: Secrets) -> None:
    said = refusal(far, token_file=secrets.written("watcher-token"), **secrets.trust)
    assert "'watcher' has role view, expected infer or admin" in said


def test_a_device_whose_certificate_another_authority_signed_is_refused(far: Served, secrets: Secrets) -> None:
    foreign = authority(secrets.folder, "foreign")
    said = refusal(far, token_file=secrets.token, tls_ca=str(foreign.certificate))
    assert "CERTIFICATE_VERIFY_FAILED" in said


def test_a_device_whose_certificate_has_expired_is_refused(secrets: Secrets, short_path: Path) -> None:
    expired = signed(secrets.folder, "expired", secrets.authority, days="-1")
    options = ["--tls-certificate", str(expired.certificate), "--tls-key", str(expired.key)]
    with far_device(short_path, *options) as far:
        assert "certificate has expired" in refusal(far, **secrets.trust).lower()


def test_without_tls_nothing_is_answered(far: Served, secrets: Secrets) -> None:
    assert "UNAVAILABLE" in refusal(far, token_file=secrets.token, patience="0.5")


def test_a_certificate_of_the_authority_opens_a_session_in_its_name(secrets: Secrets, short_path: Path) -> None:
    server, client = secrets.server, secrets.client
    own = {"tls_certificate": str(client.certificate), "tls_key": str(client.key), **secrets.trust}
    asked = str(secrets.authority.certificate)
    options = ["--tls-certificate", str(server.certificate), "--tls-key", str(server.key), "--tls-client-ca", asked]
    with far_device(short_path, *options) as far:
        with connection_to(far, **own), far.admin() as admin:
            names = [session.client_name for session in admin.process().sessions]
        assert any(name.endswith(" as client") for name in names), names
        assert "cannot be used" in refusal(far, **secrets.trust)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--listen", "0.0.0.0:0"], "expected --tls-certificate and --tokens or --tls-client-ca, or --insecure"),
        (["--listen", "nowhere"], "'nowhere': expected HOST:PORT"),
        (["--insecure"], "--listen HOST:PORT, which is missing"),
        (["--listen", "127.0.0.1:0", "--tls-key", "k.pem"], "--tls-certificate and --tls-key go together"),
        (["--listen", "127.0.0.1:0", "--tokens", "missing.toml"], "missing.toml"),
    ],
)
def test_what_is_not_safe_or_contradicts_itself_is_refused(short_path: Path, options: list[str], reason: str) -> None:
    lines: list[str] = []
    child = Child(
        "nnhal_devices", ["cpu_ref", "--endpoint", str(short_path / "far"), *options], heard=lines.append, zygote=WARM
    )
    try:
        assert child.process.wait(60) == 2
    finally:
        child.stop()
    assert reason in "".join(lines)


def test_beyond_loopback_it_listens_insecurely_on_purpose_only(short_path: Path) -> None:
    with far_device(short_path, "--insecure", listen="0.0.0.0:0") as far:
        port = far.address.rpartition(":")[2]
        with connection_to(Served(far.child, far.endpoint, f"127.0.0.1:{port}")) as connection:
            assert connection.device.version


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Run", "PutConstant", "OpenSession"])
def test_calls_that_never_send_anything_keep_nobody_out(short_path: Path, method: str) -> None:
    with far_device(short_path) as far:

        def is_admitted() -> bool:
            try:
                with connection_to(far, patience="10") as connection:
                    return bool(connection.device.version)
            except OSError:
                return False

        with connection_to(far), idle_calls(far.address, 80, half_sent(f"/nnhal.v1.WireService/{method}")):
            wait_until(is_admitted, "another framework is admitted")


def test_a_message_that_is_too_long_is_refused(short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNHAL_DEVICE_WIRE_MESSAGE_BYTES", str(4 << 20))
    with far_device(short_path) as far:
        call = complete("/nnhal.v1.WireService/OpenSession", bytes(5 << 20))
        with idle_calls(far.address, 1, call) as calls:
            assert refused(calls, 1)[0].startswith("RESOURCE_EXHAUSTED: ")


def test_other_users_are_refused_before_their_messages_are_received(secrets: Secrets, short_path: Path) -> None:
    with far_device(short_path, "--tokens", str(secrets.tokens)) as served:
        for method, code in ("OpenSession", "UNAUTHENTICATED"), ("Run", "INVALID_ARGUMENT"):
            with idle_calls(served.address, 1, half_sent(f"/nnhal.v1.WireService/{method}")) as calls:
                assert refused(calls, 1)[0].startswith(f"{code}: ")
