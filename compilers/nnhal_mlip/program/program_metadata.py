"""Facts of a program in the metadata.

The driver converts between the float32 of its client and the types of the accelerator. Addresses in DDR begin at 0 in
each range, since the driver relocates each. Ranges end at their last byte, so that an empty one is 1 to 0: that is
what the driver's arithmetic takes for no bytes.
"""

from __future__ import annotations

from hashlib import blake2b
from math import prod

from nnhal_mlip.program.codec import CodeOffsets, ProgramCode
from nnhal_mlip.program.metadata import METADATA_BYTES, MlipMetadata
from nnhal_mlip.program.metadata_blocks import (
    HeaderBlock,
    InputBlock,
    ModelBlock,
    OutputBlock,
    SectionBlock,
    Version,
    VersionsBlock,
    WeightsBlock,
)
from nnhal_mlip.program.metadata_checks import MAGIC, MANY_PORTS_VERSION, TARGET_MLIP
from nnhal_mlip.program.program import OCM_BYTES, MlipProgram, ProgramPort, TensorType

_MODEL_VERSION: Version = (1, 0, 0, 0)
_CDK_VERSION: Version = (0, 0, 0, 0)
_COMPILER = b"nnhal-1"
_NCHW, _NHWC = 1, 2
_CONVERT, _AS_IT_IS = 1, 2
_NAME_BYTES = 64
_PORT_NAME_BYTES = 16


def metadata_of(
    program: MlipProgram, code: ProgramCode, weights: bytes, offsets: CodeOffsets, weights_offset: int
) -> MlipMetadata:
    """Return the metadata of a program, but for their CRCs. ``weights`` are not empty; the rest is where they lie."""
    digest = blake2b(digest_size=16)
    for part in (*code, weights):
        digest.update(part)
    inputs, outputs = _end(program.inputs), _end(program.outputs)
    return MlipMetadata(
        header=HeaderBlock(MAGIC, MANY_PORTS_VERSION, METADATA_BYTES, digest.digest().rstrip(b"\0"), TARGET_MLIP),
        model=ModelBlock(
            name=_cut(program.name, _NAME_BYTES),
            version=_MODEL_VERSION,
            code_bytes=sum(map(len, code)),
            data_bytes=len(weights),
            ocm_start=0,
            ocm_end=OCM_BYTES - 1,
            ocm_relocatable=1,
            tile_relocatable=1,
            first_tile=0,
            last_tile=program.tiles - 1,
            batch=program.batch % 256,
            inputs=len(program.inputs),
            outputs=len(program.outputs),
            input_bytes=inputs,
            output_bytes=outputs,
            table_bytes=0,
            layers=len(program.layers),
            ocm_scratch_floor=program.ocm_scratch_floor,
            ocm_weights=_span(program.ocm_weights_bytes),
            ddr_weights=_span(len(weights)),
            ddr_inputs=_span(inputs),
            ddr_outputs=_span(outputs),
            compiler_version=_COMPILER,
            cdk_version=_CDK_VERSION,
            lower_batch=0,
            ddr_scratch=_span(program.scratch_bytes),
        ),
        init=SectionBlock(offsets.init, len(code.init)),
        main=SectionBlock(offsets.main, len(code.main)),
        finish=SectionBlock(offsets.finish, len(code.finish)),
        weights=WeightsBlock(0, weights_offset, len(weights), 1),
        inputs=tuple(map(_input, program.inputs)),
        outputs=tuple(map(_output, program.outputs)),
        versions=VersionsBlock(_COMPILER, _CDK_VERSION),
    )


def _input(port: ProgramPort) -> InputBlock:
    n, c, h, w = (*port.shape, *[1] * (4 - len(port.shape)))
    converted, given = _conversion(port)
    return InputBlock(
        memory_offset=port.offset,
        relocatable=1,
        quantize=converted,
        given=given,
        wanted=port.type,
        scale=1.0 / port.scale,
        format=_NHWC if port.layout == "NHWC" else _NCHW,
        shape=(n, c, h, w),
        name=_cut(port.name, _PORT_NAME_BYTES),
        memory_end=port.offset + port.bytes - 1,
    )


def _output(port: ProgramPort) -> OutputBlock:
    converted, returned = _conversion(port)
    return OutputBlock(
        memory_offset=port.offset,
        relocatable=1,
        dequantize=converted,
        returned=returned,
        produced=port.type,
        scale=port.scale,
        elements=prod(port.shape),
        memory_end=port.offset + port.bytes - 1,
        name=_cut(port.name, _PORT_NAME_BYTES),
    )


def _conversion(port: ProgramPort) -> tuple[int, TensorType]:
    """Return whether the driver converts, and the type of its client."""
    if port.type in (TensorType.FP16, TensorType.INT8):
        return _CONVERT, TensorType.FP32
    return _AS_IT_IS, port.type


def _end(ports: tuple[ProgramPort, ...]) -> int:
    return ports[-1].offset + ports[-1].bytes


def _span(count: int) -> tuple[int, int]:
    return (0, count - 1) if count else (1, 0)


def _cut(text: str, size: int) -> bytes:
    """Return as many whole characters as leave a zero at the end."""
    return text.encode()[: size - 1].decode(errors="ignore").encode().rstrip(b"\0")
