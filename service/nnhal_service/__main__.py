"""``python -m nnhal_service --endpoint DIR --device NAME=DIR…``: the framework process."""

from __future__ import annotations

import sys

from nnhal_hosting.extras import require_extra
from nnhal_hosting.interrupts import end_at_interrupt


def main() -> int:
    """Serve until SIGTERM or SIGINT.

    Returns 2 if the arguments are wrong, 1 if a model cannot be loaded, EXIT_STATUS if an operator ended the process.
    """
    end_at_interrupt("nnhal serve")
    require_extra("service", "nnhal serve")
    from pydantic import ValidationError

    from nnhal.endpoint import Endpoint
    from nnhal.errors import NnhalError
    from nnhal_hosting.admin.oversight import oversight_of
    from nnhal_hosting.interpreter_sharing import set_start_apart, share_interpreter
    from nnhal_hosting.logs import configure_logs, get_logger
    from nnhal_hosting.service_manager import passed_sockets
    from nnhal_hosting.settings import describe_invalid
    from nnhal_hosting.supervision import Supervision
    from nnhal_hosting.threads import refuse_threads_without_memory, show_thread_names
    from nnhal_service.allocator import keep_freed_memory
    from nnhal_service.options import options_of, parser
    from nnhal_service.process import FrameworkProcess
    from nnhal_service.settings import ServiceSettings

    arguments = parser().parse_args()
    show_thread_names()
    refuse_threads_without_memory()
    share_interpreter()
    keep_freed_memory()
    supervision = Supervision(arguments.supervisor)
    try:
        settings = ServiceSettings(**options_of(arguments))
        configure_logs("framework", settings.log_level, settings.log_json)
        endpoint = Endpoint(arguments.endpoint.resolve(), "framework")
        oversight = oversight_of(supervision, settings.admin_key)
        process = FrameworkProcess(endpoint, dict(arguments.devices), settings, oversight, passed_sockets())
    except ValidationError as error:
        print(f"nnhal serve: {describe_invalid(error)}", file=sys.stderr)
        return 2
    except (OSError, ValueError, NnhalError) as error:
        print(f"nnhal serve: {error}", file=sys.stderr)
        return 2
    set_start_apart()  # before models are loaded, which may be unloaded
    try:
        with process:
            get_logger(__name__).info("serving", endpoint=str(arguments.endpoint), devices=len(arguments.devices))
            for protocol, address in process.addresses.items():
                print(f"{protocol}: {address}", file=sys.stderr)
            supervision.ready(f"nnhal serve: serves at {arguments.endpoint}, until SIGTERM or SIGINT")
            status = supervision.wait()
    except NnhalError as error:
        print(f"nnhal serve: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
