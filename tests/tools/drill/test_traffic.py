"""A drill counts what is lost, wrong and asked again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np

from nnhal_tools.drill import DrillTraffic

_RIGHT = np.linspace(0, 1, 10, dtype=np.float32)


class _Handler(BaseHTTPRequestHandler):
    """Gives the answers of a script, and then right ones."""

    script: list[tuple[int, list[float]]]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        status, values = self.script.pop(0) if self.script else (200, _RIGHT.tolist())
        body = json.dumps({"outputs": [{"data": values}]}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def _answering(*script: tuple[int, list[float]], clients: int = 1) -> Iterator[DrillTraffic]:
    handler = type("_Scripted", (_Handler,), {"script": list(script)})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            image = np.zeros((1, 1, 8, 8), np.float32)
            yield DrillTraffic(f"127.0.0.1:{server.server_port}", ["m"], image, _RIGHT[np.newaxis], clients)
        finally:
            server.shutdown()
            thread.join()


def test_all_is_well_if_every_answer_is_right() -> None:
    with _answering(clients=2) as traffic, traffic:
        traffic.wait(5)
        report = traffic.report("rest", 1.0)
    assert report.passed
    assert report.answered >= 5
    assert 0 < report.median_ms <= report.slowest_ms
    assert (report.asked_again, report.wrong, report.lost) == (0, 0, 0)


def test_what_is_refused_is_asked_again_and_what_fails_or_is_wrong_is_counted() -> None:
    with _answering((503, []), (500, []), (200, [0.5] * 10)) as traffic, traffic:
        traffic.wait(2)
        report = traffic.report("trouble", 1.0)
    assert (report.asked_again, report.wrong, report.lost) == (1, 1, 1)
    assert report.trouble.startswith("m: 500: ")
    assert not report.passed
