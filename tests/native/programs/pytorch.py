"""Run modules of PyTorch by NNAPI, as an application does that knows nothing of nnhal, and compare the results.

It prints a line for each kind of module: its name, and the largest difference.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import nn
from torch.backends._nnapi.prepare import convert_model_to_nnapi

torch.manual_seed(7)


def channels_last(tensor: Any) -> Any:
    """Return a tensor with its channels last, as NNAPI wants images."""
    tensor = tensor.contiguous(memory_format=torch.channels_last)
    tensor.nnapi_nhwc = True
    return tensor


def image(*shape: int) -> Any:
    return channels_last(torch.randn(*shape))


class Both(nn.Module):
    def forward(self, first: Any, second: Any) -> Any:
        return first * second, torch.relu(first - second)


class Joined(nn.Module):
    def forward(self, first: Any, second: Any) -> Any:
        return torch.cat([first, second], dim=1)


class Mean(nn.Module):
    def forward(self, given: Any) -> Any:
        return given.mean([2, 3])


class Quantised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.quantization.QuantStub()
        self.second = nn.Conv2d(3, 4, 3)

    def forward(self, given: Any) -> Any:
        return self.second(self.first(given))


def quantised() -> Any:
    """Return a convolution of 8 bits, made by PyTorch's quantisation after training."""
    torch.backends.quantized.engine = "qnnpack"
    module = Quantised().eval()
    module.qconfig = torch.quantization.get_default_qconfig("qnnpack")
    torch.quantization.prepare(module, inplace=True)
    module(torch.randn(4, 3, 8, 8))
    torch.quantization.convert(module, inplace=True)
    return module


def classifier() -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 6, 3, groups=6),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(216, 10),
        nn.Softmax(dim=1),
    )


KINDS: dict[str, Any] = {
    "linear": (nn.Linear(12, 5), [torch.randn(3, 12)]),
    "convolution": (nn.Conv2d(3, 6, 3, stride=2), [torch.randn(1, 3, 9, 9)]),
    "convolution, channels last": (nn.Conv2d(3, 6, 3, padding=1), [image(1, 3, 9, 9)]),
    "depthwise": (nn.Conv2d(4, 4, 3, groups=4), [image(1, 4, 7, 7)]),
    "transposed": (nn.ConvTranspose2d(3, 5, 2, stride=2), [image(1, 3, 4, 4)]),
    "prelu": (nn.PReLU(), [image(1, 3, 4, 4)]),
    "relu6": (nn.ReLU6(), [torch.randn(2, 5) * 8]),
    "max pool": (nn.MaxPool2d(2), [image(1, 3, 6, 6)]),
    "average pool": (nn.AvgPool2d(3, stride=1), [image(1, 3, 6, 6)]),
    "upsampling": (nn.UpsamplingNearest2d(scale_factor=2), [image(1, 2, 3, 4)]),
    "softmax": (nn.Softmax(dim=1), [torch.randn(2, 7)]),
    "sigmoid": (nn.Sigmoid(), [torch.randn(2, 7)]),
    "two outputs": (Both(), [torch.randn(2, 4), torch.randn(2, 4)]),
    "joined": (Joined(), [torch.randn(2, 3), torch.randn(2, 2)]),
    "mean": (Mean(), [image(1, 3, 4, 4)]),
    "quantised": (quantised(), [image(1, 3, 8, 8)]),
    "classifier": (classifier(), [torch.randn(1, 1, 28, 28)]),
}


def values(result: Any) -> Any:
    return result if isinstance(result, tuple) else (result,)


def real(tensor: Any) -> Any:
    return tensor.dequantize() if tensor.is_quantized else tensor


def main() -> None:
    with torch.no_grad():
        for name, (module, given) in KINDS.items():
            if len(sys.argv) > 1 and name not in sys.argv[1:]:
                continue
            module = module.eval()
            by_nnapi = convert_model_to_nnapi(torch.jit.trace(module, given), given)
            for _ in range(2):
                pairs = list(zip(values(module(*given)), values(by_nnapi(*given)), strict=True))
            worst = max(float((real(ours) - real(theirs)).abs().max()) for ours, theirs in pairs)
            print(f"{name}: {worst:.1g}", flush=True)


if __name__ == "__main__":
    main()
