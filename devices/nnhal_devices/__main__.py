"""``python -m nnhal_devices NAME --endpoint DIR``: one device process."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nnhal_hosting.extras import require_extra


def main() -> int:
    """Serve until SIGTERM or SIGINT. Returns 2 if the arguments are wrong, EXIT_STATUS if an operator ended it."""
    require_extra("devices", "nnhal device")
    from pydantic import ValidationError
    from threadpoolctl import threadpool_limits

    from nnhal.endpoint import Endpoint
    from nnhal.errors import NnhalError
    from nnhal.memory import MemoryGuard
    from nnhal_devices.driver import DriverOptions
    from nnhal_devices.dynamic import BackendError, register_backends
    from nnhal_devices.faults.arguments import add_fault_arguments, faults_at_start
    from nnhal_devices.host.memory_watch import be_first_to_go
    from nnhal_devices.host.process import host
    from nnhal_devices.host.settings import DeviceSettings
    from nnhal_devices.host.wire.arguments import add_wire_arguments
    from nnhal_devices.registry import create_driver, driver_names, registry
    from nnhal_hosting.access import TokenFileError
    from nnhal_hosting.admin.oversight import oversight_of
    from nnhal_hosting.logs import configure_logs, get_logger
    from nnhal_hosting.politeness import set_start_apart, share_interpreter
    from nnhal_hosting.settings import describe_invalid
    from nnhal_hosting.supervision import Supervision, add_supervision_argument
    from nnhal_hosting.thread_names import show_thread_names
    from nnhal_hosting.thread_starts import refuse_threads_without_memory

    parser = argparse.ArgumentParser(
        "nnhal device",
        description="Serve one emulated accelerator until SIGTERM or SIGINT.",
        epilog="DIR gets two sockets: device.sock speaks gRPC, link.sock passes descriptors. NNHAL_DEVICE_* in the "
        "environment sets what the options set, and the limits that have no option.",
    )
    parser.add_argument("name", help=f"which driver: {', '.join(driver_names())}")
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
        help="the one directory to load backend files from, whatever NNHAL_DEVICE_BACKEND_PATHS lists",
    )
    parser.add_argument(
        "--admin-key",
        metavar="FILE",
        help="the key that operators of this process show: a file of its own user, with mode 0600 or 0400; for "
        "processes that systemd or containers supervise, since nnhal up gives its processes a key by itself",
    )
    add_wire_arguments(parser)
    add_fault_arguments(parser)
    parser.add_argument(
        "--allow-recording",
        action="store_true",
        default=None,
        help="let the user who runs this process record what all clients ask of the device: see 'nnhal record'",
    )
    add_supervision_argument(parser)
    arguments = vars(parser.parse_args())
    show_thread_names()
    refuse_threads_without_memory()
    be_first_to_go()
    share_interpreter()
    name, directory = arguments.pop("name"), arguments.pop("endpoint")
    started_again = bool(arguments.pop("started_again"))
    supervision = Supervision(arguments.pop("supervisor"))
    try:
        settings = DeviceSettings(**{key: value for key, value in arguments.items() if value is not None})
        configure_logs(name, settings.log_level, settings.log_json)
        guard = MemoryGuard() if settings.map_files else None  # before any thread is started
        register_backends(settings.backend_paths, registry())
        driver = create_driver(name, DriverOptions(settings.threads, settings.options))
        threadpool_limits(settings.threads, user_api="blas")  # numpy's would use every processor
        oversight = oversight_of(supervision, settings.admin_key)
        faults = faults_at_start(settings.allow_faults, settings.faults, started_again, directory)
        process = host(driver, Endpoint(directory.resolve()), settings, guard, oversight, faults)
    except ValidationError as error:
        print(f"nnhal device: {describe_invalid(error)}", file=sys.stderr)
        return 2
    except (BackendError, LookupError, NnhalError, OSError, TokenFileError, ValueError) as error:
        print(f"nnhal device: {error}", file=sys.stderr)
        return 2
    with process:
        get_logger(__name__).info("serving", device=name, endpoint=str(directory), version=driver.version)
        set_start_apart()
        supervision.ready()
        return supervision.wait()


if __name__ == "__main__":
    sys.exit(main())
