"""Models that the front door loads."""

from __future__ import annotations

import subprocess
import sys

SERVERS_OF_HTTP = ("fastapi", "httptools", "starlette", "uvicorn")


def test_servers_of_http_are_not_imported_before_a_front_needs_them() -> None:
    script = (
        "import sys, nnhal_service.model_server, nnhal_service.__main__\n"
        f"print([name for name in {SERVERS_OF_HTTP} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout == "[]\n"
