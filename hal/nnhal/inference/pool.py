"""The descriptor pool of package 'inference'.

Every client library of the protocol registers the same names in protobuf's default pool, from a file of its own, so
that two of them in one process collide. A separate pool lets such a library be imported in the same process.
"""

from __future__ import annotations

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
