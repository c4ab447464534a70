"""The link: passes descriptors and channels between processes. Its messages are in proto/nnhal/v1/link.proto."""

from nnhal.link.channel import Channel, ChannelClosedError, ProtocolError, channel_pair
from nnhal.link.client import SESSION_METADATA, Link
from nnhal.link.descriptors import DescriptorTable, Limits
from nnhal.link.server import LinkServer, Session

__all__ = [
    "SESSION_METADATA",
    "Channel",
    "ChannelClosedError",
    "DescriptorTable",
    "Limits",
    "Link",
    "LinkServer",
    "ProtocolError",
    "Session",
    "channel_pair",
]
