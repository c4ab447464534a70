"""The link: passes descriptors and channels between processes. Its messages are in proto/nnhal/v1/link.proto."""

from nnhal.link.call_channel import CallChannel
from nnhal.link.channel import Channel, ChannelClosedError, NoDescriptorError, ProtocolError, Traffic, channel_pair
from nnhal.link.client import SESSION_METADATA, Link

__all__ = [
    "SESSION_METADATA",
    "CallChannel",
    "Channel",
    "ChannelClosedError",
    "Link",
    "NoDescriptorError",
    "ProtocolError",
    "Traffic",
    "channel_pair",
]
