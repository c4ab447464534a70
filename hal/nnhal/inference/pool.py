"""Where the descriptors of package 'inference' live.

Every client library of the protocol registers the same names in protobuf's default pool, from a file of its own; two of
them in one process collide there. These are apart, so that such a library may be imported beside them.
"""

from __future__ import annotations

from google.protobuf.descriptor_pool import DescriptorPool

POOL = DescriptorPool()
