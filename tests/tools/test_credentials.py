"""``nnhal secrets``: what it makes, for whom, and what it leaves alone."""

from __future__ import annotations

import ssl
import stat
import subprocess
from pathlib import Path

import pytest

from nnhal_hosting.access import read_tokens
from nnhal_hosting.access.tokens import AccessRole
from nnhal_hosting.admin_keys import read_admin_key
from nnhal_tools.credentials import CertificateError, CredentialFolders, make_certificate
from tests.support.command import nnhal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("secrets")
    done = nnhal("secrets", str(directory), "--certificate", "localhost, framework,127.0.0.1")
    assert done.returncode == 0, done.stderr
    told = {line.removeprefix("made ") for line in done.stdout.splitlines()}
    assert told == {str(path) for path in directory.rglob("*") if path.is_file()}
    return directory


def test_processes_take_what_it_makes(made: Path) -> None:
    tokens = read_tokens(made / "servers/tokens.toml")
    for role, folder in (("view", "clients"), ("infer", "clients"), ("admin", "operators")):
        token = (made / folder / f"{role}.token").read_text().strip()
        identity = tokens.identity(f"Bearer {token}")
        assert identity is not None
        assert (identity.name, identity.role) == (role, AccessRole[role.upper()])
    assert len(read_admin_key(made / "operators/admin.key")) == 64


def test_only_its_user_reads_them_and_servers_hold_no_token(made: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.rglob("*") if path.is_file()} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()} == {0o700}
    assert {path.name for path in (made / "servers").iterdir()} == {"tokens.toml", "server.pem", "server.key"}


def test_the_certificate_holds_for_the_names_and_its_authority_cannot_sign_another(made: Path) -> None:
    context = ssl.create_default_context(cafile=str(made / "clients/ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(made / "servers/server.pem", made / "servers/server.key")
    certificate = str(made / "servers/server.pem")
    checked = ["openssl", "verify", "-x509_strict", "-CAfile", str(made / "clients/ca.pem"), certificate]
    assert subprocess.run(checked, capture_output=True, check=False).returncode == 0
    for name, option in (("framework", "-checkhost"), ("localhost", "-checkhost"), ("127.0.0.1", "-checkip")):
        asked = ["openssl", "x509", "-noout", "-in", certificate, option, name]
        assert "does match" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert not list(made.rglob("ca.key"))


def test_what_is_there_is_left_as_it_is(made: Path) -> None:
    before = {path: path.read_bytes() for path in made.rglob("*") if path.is_file()}
    done = nnhal("secrets", str(made), "--certificate", "elsewhere")
    assert (done.returncode, done.stdout) == (0, "")
    assert {path: path.read_bytes() for path in made.rglob("*") if path.is_file()} == before


def test_a_token_is_shown_to_who_asks(made: Path) -> None:
    assert nnhal("secrets", str(made), "--show", "admin").stdout == (made / "operators/admin.token").read_text()
    assert "expected view, infer, admin" in nnhal("secrets", str(made), "--show", "root").stderr


def test_without_names_there_is_no_certificate(tmp_path: Path) -> None:
    done = nnhal("secrets", str(tmp_path), "--certificate=")
    assert done.returncode == 0
    assert not list(tmp_path.rglob("*.pem"))


def test_a_certificate_that_ends_soon_is_an_error(tmp_path: Path) -> None:
    folders = CredentialFolders(tmp_path)
    folders.create()
    key, certificate = str(tmp_path / "key"), str(folders.servers / "server.pem")
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*made, "-keyout", key, "-subj", "/CN=x", "-days", "2", "-out", certificate], check=True, capture_output=True
    )
    with pytest.raises(CertificateError, match="expected a certificate that lasts for a week"):
        list(make_certificate(folders, ["localhost"]))
