"""Lines of ``nnhal ps`` about processes that say little of themselves."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nnhal.endpoint import Endpoint
from nnhal_pages.operating.snapshot import Detail
from nnhal_tools.cli.app import app
from nnhal_tools.operate import operator_session
from nnhal_tools.operate.operator_session import OperatorSession
from tests.support.scripted import ScriptedDevice


def test_a_device_without_admin_service_is_told_from_a_silent_one(
    short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_session, "_PATIENCE_SECONDS", 2.0)
    silent = Endpoint(short_path / "asleep")
    silent.directory.mkdir(0o700)
    with (
        ScriptedDevice(Endpoint(short_path / "foreign")),
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link,
        socket.socket(socket.AF_UNIX) as rpc,
    ):
        for listener, path in ((link, silent.link), (rpc, silent.rpc)):
            listener.bind(str(path))
            listener.listen()
        with OperatorSession(short_path) as operator:
            found = {entry.name: entry for entry in operator.look(Detail.SESSIONS).processes}
        assert found["foreign"].lack.startswith("no admin service: ")
        assert "nnhal.v1.AdminService/GetProcess" in found["foreign"].lack
        assert str(short_path / "foreign") in found["foreign"].lack
        assert not found["foreign"].silence
        assert found["asleep"].silence and not found["asleep"].lack
        shown = CliRunner().invoke(app, ["ps", "--directory", str(short_path), "--json"])
        problems = [entry["problem"] for entry in json.loads(shown.output.splitlines()[-1])["processes"]]
        assert problems == [found["asleep"].silence, found["foreign"].lack]
        table = CliRunner().invoke(app, ["ps", "--directory", str(short_path)]).output
    assert "no admin service" in table
    assert "silent" in table
