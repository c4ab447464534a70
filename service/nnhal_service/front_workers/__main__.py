"""``python -m nnhal_service.front_workers``: a front worker. Only the framework's process starts it."""

from __future__ import annotations

import argparse
import sys

from nnhal.descriptor import Descriptor
from nnhal.errors import NnhalError
from nnhal_hosting.interpreter_sharing import share_interpreter
from nnhal_hosting.supervision import Supervision, add_supervision_argument
from nnhal_hosting.threads import refuse_threads_without_memory, show_thread_names
from nnhal_service.allocator import keep_freed_memory
from nnhal_service.front_workers.process import FrontWorkerProcess


def main() -> int:
    """Serve until the framework's process ends.

    Returns 2 if an address cannot be listened at, EXIT_STATUS if a server has ended by itself.
    """
    parser = argparse.ArgumentParser("nnhal_service.front_workers", description="A front worker of nnhal serve.")
    parser.add_argument("--framework", type=int, required=True, metavar="FD", help="the channel to the framework")
    add_supervision_argument(parser)
    arguments = parser.parse_args()
    show_thread_names()
    refuse_threads_without_memory()
    share_interpreter()
    keep_freed_memory()
    supervision = Supervision(arguments.supervisor)
    try:
        with FrontWorkerProcess(Descriptor(arguments.framework), supervision.give_up):
            supervision.ready()
            return supervision.wait()
    except (OSError, ValueError, NnhalError) as error:
        print(f"nnhal serve: a front worker: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
