"""``python -m nnhal_devices NAME --endpoint DIR``: one device process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnhal_hosting.extras import require_extra
from nnhal_hosting.interrupts import end_at_interrupt

if TYPE_CHECKING:
    from nnhal_devices.faults.injection import DeviceFaults


def main() -> int:
    """Serve until SIGTERM or SIGINT. Returns 2 if the arguments are wrong, EXIT_STATUS if an operator ended it."""
    end_at_interrupt("nnhal device")
    require_extra("devices", "nnhal device")
    from pydantic import ValidationError
    from threadpoolctl import threadpool_limits

    from nnhal.endpoint import Endpoint
    from nnhal.errors import NnhalError
    from nnhal.memory import MemoryGuard
    from nnhal_devices.driver import DriverOptions
    from nnhal_devices.dynamic import BackendError, register_backends
    from nnhal_devices.host.memory.memory_watch import prefer_for_oom_kill
    from nnhal_devices.host.process import host
    from nnhal_devices.host.settings import DeviceSettings
    from nnhal_devices.registry import create_driver, driver_names, registry
    from nnhal_hosting.access import TokenFileError
    from nnhal_hosting.admin.oversight import oversight_of
    from nnhal_hosting.interpreter_sharing import set_start_apart, share_interpreter
    from nnhal_hosting.logs import configure_logs, get_logger
    from nnhal_hosting.settings import describe_invalid
    from nnhal_hosting.supervision import Supervision
    from nnhal_hosting.threads import refuse_threads_without_memory, show_thread_names

    arguments = vars(parser(driver_names()).parse_args())
    show_thread_names()
    refuse_threads_without_memory()
    prefer_for_oom_kill()
    share_interpreter()
    name, directory = arguments.pop("name"), arguments.pop("endpoint")
    started_again = bool(arguments.pop("started_again"))
    supervision = Supervision(arguments.pop("supervisor"))
    endpoint = Endpoint(directory.resolve())
    try:
        settings = DeviceSettings(**{key: value for key, value in arguments.items() if value is not None})
        configure_logs(name, settings.log_level, settings.log_json)
        guard = MemoryGuard() if settings.map_files else None  # before any thread is started
        register_backends(settings.backend_paths, registry(), name, settings.backend_seconds)
        try:
            driver = create_driver(name, DriverOptions(settings.threads, settings.options))
        except (NnhalError, OSError) as error:  # such as a device on another host that cannot be reached
            endpoint.write_trouble(str(error))
            raise
        threadpool_limits(settings.threads, user_api="blas")  # numpy's would use every processor
        oversight = oversight_of(supervision, settings.admin_key)
        faults = _faults_at_start(settings.allow_faults, settings.faults, started_again, directory)
        process = host(driver, endpoint, settings, guard, oversight, faults)
    except ValidationError as error:
        print(f"nnhal device: {describe_invalid(error)}", file=sys.stderr)
        return 2
    except (BackendError, LookupError, NnhalError, OSError, TokenFileError, ValueError) as error:
        print(f"nnhal device: {error}", file=sys.stderr)
        return 2
    supervision.end_at_interrupt()
    with process:
        endpoint.clear_trouble()
        get_logger(__name__).info("serving", device=name, endpoint=str(directory), version=driver.version)
        set_start_apart()
        supervision.ready(f"nnhal device: {name} serves at {directory}, until SIGTERM or SIGINT")
        return supervision.wait()


def parser(drivers: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command line; help names the drivers."""
    from nnhal_hosting.supervision import add_supervision_argument

    parser = argparse.ArgumentParser(
        "nnhal device",
        description="Serve one emulated accelerator until SIGTERM or SIGINT.",
        epilog="DIR gets two sockets: device.sock speaks gRPC, link.sock passes descriptors. NNHAL_DEVICE_* in the "
        "environment sets what the options set, and the limits that have no option.",
    )
    parser.add_argument("name", help=f"which driver: {', '.join(drivers)}")
    parser.add_argument("--endpoint", metavar="DIR", type=Path, required=True, help="the directory for the two sockets")
    parser.add_argument("--workers", help="executions that run at a time (default 1)")
    parser.add_argument(
        "--spin-us", help="microseconds to look for the next call before sleeping, which costs a processor (default 0)"
    )
    parser.add_argument("--threads", help="threads that one execution may use (default 1)")
    parser.add_argument(
        "--option",
        metavar="KEY=VALUE",
        action="append",
        dest="options",
        help="an option of the driver's own; may be repeated. The driver's README lists them",
    )
    parser.add_argument("--log-level", help="debug, info, warning or error (default warning)")
    parser.add_argument(
        "--backend-path",
        metavar="DIR",
        dest="backend_paths",
        type=lambda path: (Path(path),),
        help="the one directory to look for backend files in, whatever NNHAL_DEVICE_BACKEND_PATHS lists",
    )
    parser.add_argument(
        "--admin-key",
        metavar="FILE",
        help="the key that operators of this process show: a file of its own user, with mode 0600 or 0400. nnhal up "
        "gives its processes a key by itself",
    )
    _add_wire_arguments(parser)
    _add_fault_arguments(parser)
    parser.add_argument(
        "--allow-recording",
        action="store_true",
        default=None,
        help="let the user who runs this process record what all clients ask of the device: see 'nnhal record'",
    )
    add_supervision_argument(parser)
    return parser


def _add_wire_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a process that listens for frameworks on other hosts. Names as in the settings."""
    wire = parser.add_argument_group(
        "frameworks on other hosts", "beyond loopback only with TLS and tokens or client certificates: docs/deploy.md"
    )
    wire.add_argument("--listen", metavar="HOST:PORT", help="listen there too; port 0 lets the system choose")
    wire.add_argument("--tls-certificate", metavar="FILE", help="the certificate of the device's host, in PEM form")
    wire.add_argument("--tls-key", metavar="FILE", help="its key")
    wire.add_argument(
        "--tls-client-ca", metavar="FILE", help="admit only clients with a certificate of this authority (mutual TLS)"
    )
    wire.add_argument("--tokens", metavar="FILE", help="admit only clients with a token of this file: docs/security.md")
    wire.add_argument(
        "--insecure",
        action="store_true",
        default=None,
        help="listen beyond this host without TLS, or without tokens and client certificates",
    )


def _add_fault_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of a process that may be made to misbehave."""
    parser.add_argument(
        "--allow-faults",
        action="store_true",
        default=None,
        help="let the user who runs this process tell the device to misbehave: see 'nnhal faults'",
    )
    parser.add_argument(
        "--faults", metavar="FILE", type=Path, help="faults that it has from the start on; needs --allow-faults"
    )
    parser.add_argument("--started-again", action="store_true", default=None, help=argparse.SUPPRESS)


def _faults_at_start(allowed: bool, file: Path | None, started_again: bool, directory: Path) -> DeviceFaults | None:
    """The faults of a device that serves in a directory; None if it takes none.

    Raises ValueError for faults that are not allowed, and FaultDocumentError for a file that is not as expected.
    """
    if not allowed:
        if file is not None:
            raise ValueError(f"got faults {file}, expected --allow-faults with them")
        return None
    # Processes that take no faults do not pay for reading what checks them.
    from nnhal_devices.faults.injection import DeviceFaults
    from nnhal_hosting.faults import device_of, read_faults_file

    name = device_of(directory)
    if file is None:
        return DeviceFaults(name)
    document = read_faults_file(file).of(name)
    return DeviceFaults(name, document.of_each_start() if started_again else document)


if __name__ == "__main__":
    sys.exit(main())
