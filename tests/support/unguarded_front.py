"""``python -m tests.support.unguarded_front``: a framework whose gRPC ends at a path that is not UTF-8.

It has the server of grpcio, as if ngh2 were missing, to show what becomes of a process of which a server has ended.
"""

import sys

sys.modules["ngh2"] = None  # type: ignore[assignment]

from nnhal_service.__main__ import main  # noqa: E402 - as if it were missing

if __name__ == "__main__":
    sys.exit(main())
