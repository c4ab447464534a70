"""``python -m nnhal_service --endpoint DIR --device NAME=DIR…``: the framework process."""

from __future__ import annotations

import sys

from nnhal_service.grpc_core import configure_grpc

if __name__ == "__main__":
    configure_grpc()
    from nnhal_service.command import main

    sys.exit(main())
