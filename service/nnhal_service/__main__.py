"""``python -m nnhal_service --endpoint DIR --device NAME=DIR…``: the framework process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import structlog
from pydantic import ValidationError

from nnhal.endpoint import Endpoint
from nnhal.logs import configure_logs
from nnhal.settings import describe_invalid
from nnhal.supervision import Supervision, add_supervision_argument
from nnhal_service.process import serve
from nnhal_service.settings import ServiceSettings


def main() -> int:
    """Serve until SIGTERM or SIGINT; 2 where the arguments are wrong."""
    parser = argparse.ArgumentParser(
        "nnhal serve",
        description="Serve models, split over devices that run already, until SIGTERM or SIGINT.",
        epilog="DIR gets two sockets: framework.sock speaks gRPC, link.sock passes descriptors. NNHAL_SERVICE_* in the "
        "environment sets the limits that have no option.",
    )
    parser.add_argument("--endpoint", metavar="DIR", type=Path, required=True, help="the directory for the two sockets")
    parser.add_argument(
        "--device",
        dest="devices",
        type=_device,
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="a device and its directory; once for each, in order of preference",
    )
    parser.add_argument("--log-level", help="debug, info, warning or error (default warning)")
    add_supervision_argument(parser)
    arguments = parser.parse_args()
    supervision = Supervision(arguments.supervisor)
    try:
        settings = ServiceSettings(**({"log_level": arguments.log_level} if arguments.log_level else {}))
        configure_logs("framework", settings.log_level, settings.log_json)
        process = serve(Endpoint(arguments.endpoint.resolve(), "framework"), dict(arguments.devices), settings)
    except ValidationError as error:
        print(f"nnhal serve: {describe_invalid(error)}", file=sys.stderr)
        return 2
    except (OSError, ValueError) as error:
        print(f"nnhal serve: {error}", file=sys.stderr)
        return 2
    with process:
        structlog.get_logger().info("serving", endpoint=str(arguments.endpoint), devices=len(arguments.devices))
        supervision.ready()
        supervision.wait()
    return 0


def _device(text: str) -> tuple[str, Endpoint]:
    name, separator, directory = text.partition("=")
    if not (name and separator and directory):
        raise argparse.ArgumentTypeError(f"{text!r}: expected NAME=DIR")
    return name, Endpoint(Path(directory).resolve())


if __name__ == "__main__":
    sys.exit(main())
