"""``nnhal testbed try`` with a Docker that only says what it is asked: what is started, and what the ways out are."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from nnhal_tools.cli.testbed import ContainersError, try_it

pytestmark = pytest.mark.slow
DOCKER = """#!/bin/sh
echo "$NNHAL_IMAGE $NNHAL_PULL: $*" >> {log}
case "$*" in
  *" pull "*) exit {pull} ;;
  *"--show infer") echo secret ;;
  *"--show view") echo glance ;;
  *" port framework 8000") echo 127.0.0.1:{port} ;;
  *" port dashboard 8003") echo 127.0.0.1:8003 ;;
esac
"""


class Framework(http.server.BaseHTTPRequestHandler):
    """Answers the second request, and only with the token."""

    asked = 0

    def do_POST(self) -> None:
        type(self).asked += 1
        self.rfile.read(int(self.headers["Content-Length"]))
        serves = type(self).asked > 1 and self.headers["Authorization"] == "Bearer secret"
        self.send_response(200 if serves else 503)
        self.end_headers()
        self.wfile.write(json.dumps({"outputs": [{"data": [0.1, 0.7, 0.2]}]}).encode() if serves else b"{}")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a framework that serves after a while."""
    Framework.asked = 0
    with http.server.HTTPServer(("127.0.0.1", 0), Framework) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a file of Compose, and the only programs that there are."""
    (tmp_path / "docker-compose.yml").touch()
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def docker(clone: Path, port: int, pull: int = 0) -> Path:
    """Write the program. Returns the file of what it is asked."""
    program, log = clone / "bin/docker", clone / "log"
    program.write_text(DOCKER.format(log=log, port=port, pull=pull))
    program.chmod(0o755)
    return log


def test_it_pulls_starts_asks_and_tells(clone: Path, port: int, capsys: pytest.CaptureFixture[str]) -> None:
    log = docker(clone, port)
    try_it(clone, "localhost:5000", 300)
    told = capsys.readouterr().out
    assert "digits has answered: 3 scores, the highest for 1" in told
    assert [line.split()[-1] for line in told.splitlines() if "token:" in line] == ["secret", "glance"]
    assert f"http://127.0.0.1:{port}/v2\n" in told
    file = f"--file {clone}/docker-compose.yml"
    image = f"localhost:5000/nnhal:{version('nnhal')} if_not_present"
    asked = [line for line in log.read_text().splitlines() if file in line]
    assert asked[:2] == [
        f"{image}: compose {file} --profile test pull --quiet",
        f"{image}: compose {file} up --detach --no-build",
    ]


def test_without_a_registry_images_are_built_unless_some_were_published(clone: Path, port: int) -> None:
    log = docker(clone, port)
    try_it(clone, "", 300)
    assert " pull " not in log.read_text()
    (clone / "deploy").mkdir()
    (clone / "deploy/published.env").write_text("NNHAL_IMAGE=here:5000/nnhal:7\nNNHAL_PULL=if_not_present\n")
    try_it(clone, "", 300)
    assert "here:5000/nnhal:7 if_not_present: compose" in log.read_text()


def test_what_is_missing_is_told_with_a_way_out(clone: Path, port: int) -> None:
    docker(clone, port, pull=1)
    with pytest.raises(ContainersError, match="the images cannot be pulled: docker compose") as refused:
        try_it(clone, "nowhere:1", 300)
    assert refused.value.hint.startswith("without a registry: deploy/base.sh && deploy/wheels.sh && NNHAL_BASE=")
    with pytest.raises(ContainersError, match=r"docker-compose\.yml is missing"):
        try_it(clone / "bin", "", 300)
    (clone / "bin/docker").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ContainersError, match="no Docker engine answers") as alone:
        try_it(clone, "", 300)
    assert alone.value.hint.startswith("apt-get install docker.io")
