"""``python -m tests.support.unguarded_front``: a framework whose gRPC ends at a path that is not UTF-8.

It has the accept loop of grpcio as it is, to show what becomes of a process of which a server has ended.
"""

import sys

from nnhal_service.__main__ import main
from nnhal_service.v2.grpc import accepting

if __name__ == "__main__":
    accepting._HAS_REGISTERED_METHODS = False
    sys.exit(main())
