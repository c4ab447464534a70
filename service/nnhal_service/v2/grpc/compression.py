"""Messages that clients have compressed. gRPC itself would decompress them before anybody could count their bytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from nnhal_service.access import FREE_COPIES
from nnhal_service.serving.errors import ErrorKind, ServingError

AS_RECEIVED = (("grpc.per_message_decompression", 0),)
"""The option by which gRPC's server hands over messages as they are."""
_GZIP = b"\x1f\x8b"
_DEFLATE = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
COMPRESSED = (_GZIP, *_DEFLATE)
"""How compressed messages begin."""
_EITHER_FORM = 32 + zlib.MAX_WBITS
_PIECE_BYTES = 1 << 18


def is_compressed(message: bytes) -> bool:
    """Return whether a message has been compressed. No message of the protocol begins as one that has."""
    return message.startswith(COMPRESSED)


def decompressed(message: bytes, grow: Callable[[int], None]) -> bytes:
    """Return what a compressed message holds. ``grow`` is called with the bytes of memory that its next piece takes.

    Raises as ``grow``, or INVALID_ARGUMENT if the message is broken.
    """
    stream = zlib.decompressobj(_EITHER_FORM)
    pieces: list[bytes] = []
    try:
        while not stream.eof:
            piece = stream.decompress(message if not pieces else stream.unconsumed_tail, _PIECE_BYTES)
            if not piece and not stream.eof:
                raise zlib.error("it is incomplete")
            grow(2 * len(piece))  # itself, and its part of the whole
            pieces.append(piece)
    except zlib.error as error:
        raise ServingError(ErrorKind.INVALID_ARGUMENT, f"the compressed message is broken: {error}") from error
    return b"".join(pieces)


def plain(message: bytes) -> bytes:
    """Return a message for which only little memory may be taken, decompressed if it is compressed.

    Raises RESOURCE_EXHAUSTED if it holds more than half a MiB, and as ``decompressed``.
    """
    if not is_compressed(message):
        return message
    left = FREE_COPIES

    def grow(size: int) -> None:
        nonlocal left
        left -= size // 2
        if left < 0:
            raise ServingError(
                ErrorKind.RESOURCE_EXHAUSTED,
                f"the message holds more than {FREE_COPIES} bytes, which is as much as may be compressed in this call",
            )

    return decompressed(message, grow)
