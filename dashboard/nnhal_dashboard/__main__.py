"""``python -m nnhal_dashboard --directory DIR``: the dashboard's process."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from nnhal_hosting.extras import require_extra
from nnhal_hosting.interrupts import end_at_interrupt

_NICENESS = 10
"""How much the dashboard stands back for other processes when processors are scarce."""


def main() -> int:
    """Serve until SIGTERM or SIGINT. Returns 2 if the arguments are wrong, EXIT_STATUS if the server ended itself."""
    end_at_interrupt("nnhal dashboard")
    require_extra("dashboard", "nnhal dashboard")
    from pydantic import ValidationError

    from nnhal.errors import NnhalError
    from nnhal_dashboard.server import DashboardServer
    from nnhal_dashboard.settings import DashboardSettings
    from nnhal_hosting.logs import configure_logs
    from nnhal_hosting.settings import describe_invalid
    from nnhal_hosting.supervision import Supervision
    from nnhal_hosting.threads import show_thread_names

    arguments = vars(parser().parse_args())
    show_thread_names()
    supervision = Supervision(arguments.pop("supervisor"))
    try:
        settings = DashboardSettings(**{key: value for key, value in arguments.items() if value is not None})
        configure_logs("dashboard", settings.log_level, settings.log_json)
        option = "--dashboard (port of [dashboard] in a topology)" if supervision.is_supervised else "--port"
        server = DashboardServer(settings, supervision.give_up, option)
    except ValidationError as error:
        print(f"nnhal dashboard: {describe_invalid(error)}", file=sys.stderr)
        return 2
    except (OSError, ValueError, NnhalError) as error:
        print(f"nnhal dashboard: {error}", file=sys.stderr)
        return 2
    os.nice(_NICENESS)  # requests come first
    supervision.end_at_interrupt()
    with server:
        print(f"dashboard: {server.address}", file=sys.stderr)
        supervision.ready()
        return supervision.wait()


def parser() -> argparse.ArgumentParser:
    from nnhal_hosting.supervision import add_supervision_argument

    parser = argparse.ArgumentParser(
        "nnhal dashboard",
        description="Serve the admin dashboard until SIGTERM or SIGINT.",
        epilog="NNHAL_DASHBOARD_* in the environment sets what the options set, and what has no option.",
    )
    add = parser.add_argument
    add("--directory", type=Path, help="where the processes are, as for 'nnhal ps' (default: see docs/operate.md)")
    add("--framework", type=Path, help="the framework's directory, if nnhal up does not supervise it")
    add("--device", metavar="NAME=DIR", action="append", type=_named, help="a device that nobody else names")
    add("--admin-key", type=Path, metavar="FILE", help="the admin key of processes that nnhal up does not supervise")
    add("--history", type=Path, metavar="FILE", help="where a day of charts and events outlasts a restart, 16 MiB")
    add("--host", help="the address to listen at (default 127.0.0.1)")
    add("--port", help="the port (default 8003; 0 lets the system choose)")
    add("--allowed-host", metavar="NAME", action="append", help="a further name by which browsers may reach it")
    add("--tokens", type=Path, metavar="FILE", help="a file of tokens with roles: view, infer, admin")
    add("--tls-certificate", type=Path, metavar="FILE", help="PEM")
    add("--tls-key", type=Path, metavar="FILE", help="PEM")
    add("--insecure", action="store_const", const=True, help="listen beyond this host without TLS and tokens")
    add("--log-level", help="debug, info, warning or error (default warning)")
    add_supervision_argument(parser)
    return parser


def _named(text: str) -> tuple[str, Path]:
    name, _, directory = text.partition("=")
    if not name or not directory:
        raise argparse.ArgumentTypeError(f"{text!r}, expected NAME=DIR")
    return name, Path(directory)


if __name__ == "__main__":
    sys.exit(main())
