"""Train the demo's network on scikit-learn's handwritten digits, and write it as float and as int8 ONNX.

Everything is numpy on one thread with fixed seeds: on one machine the files come out the same, byte for byte.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

Floats = NDArray[np.float32]
Labels = NDArray[np.int64]
Gradients = Callable[[Floats], tuple[Floats, list[Floats]]]
"""Maps the gradient of a layer's output to those of its input and of its parameters."""

OUTPUT = Path(__file__).parents[2] / "tools" / "nnhal_tools" / "demo" / "data"
SEED = 7
HELD_OUT = 449  # a quarter of the 1797 images
EPOCHS = 40
BATCH = 32
RATE = 2e-3
CLASSES = 10
HAL_QUANTIZATION = {
    "dense.weight": [{"quant_type": QuantType.QInt8, "symmetric": True}],
    "probabilities": [
        {"quant_type": QuantType.QInt8, "scale": np.array(1 / 256, np.float32), "zero_point": np.array(-128, np.int8)}
    ],
}
"""Quantisation that the NN HAL prescribes: one scale for all weights of FULLY_CONNECTED, this one for SOFTMAX."""
OPSET = 21
IR_VERSION = 10


@dataclass(frozen=True)
class Digits:
    """Images [n, 1, 8, 8] in 0 to 1, and the digit on each."""

    images: Floats
    labels: Labels


def load() -> tuple[Digits, Digits]:
    """Split into training and held-out images."""
    digits = load_digits()
    images = (digits.images[:, None] / 16).astype(np.float32)
    order = np.random.default_rng(SEED).permutation(len(images))
    held_out, training = order[:HELD_OUT], order[HELD_OUT:]
    return Digits(images[training], digits.target[training]), Digits(images[held_out], digits.target[held_out])


@dataclass(frozen=True)
class Network:
    """Three 3x3 convolutions with ReLU, a max pooling after the second, and a fully connected layer."""

    parameters: dict[str, Floats]

    @classmethod
    def random(cls, rng: np.random.Generator) -> Network:
        """Weights drawn as by He et al., and biases of 0."""
        shapes = {
            "conv1": (12, 1, 3, 3),
            "conv2": (16, 12, 3, 3),
            "conv3": (24, 16, 3, 3),
            "dense": (CLASSES, 24 * 4 * 4),
        }
        parameters = {}
        for name, shape in shapes.items():
            deviation = np.sqrt(2 / np.prod(shape[1:]))
            parameters[f"{name}.weight"] = rng.normal(0, deviation, shape).astype(np.float32)
            parameters[f"{name}.bias"] = np.zeros(shape[0], np.float32)
        return cls(parameters)

    def forward(self, images: Floats) -> tuple[Floats, list[Gradients]]:
        """The logits, and the backward function of each layer."""
        p = self.parameters
        layers: list[Callable[[Floats], tuple[Floats, Gradients]]] = [
            lambda x: convolve(x, p["conv1.weight"], p["conv1.bias"]),
            lambda x: convolve(x, p["conv2.weight"], p["conv2.bias"]),
            pool,
            lambda x: convolve(x, p["conv3.weight"], p["conv3.bias"]),
            lambda x: dense(x, p["dense.weight"], p["dense.bias"]),
        ]
        back = []
        for layer in layers:
            images, gradients = layer(images)
            back.append(gradients)
        return images, back

    def gradients(self, images: Floats, labels: Labels) -> dict[str, Floats]:
        """Gradients of the mean cross-entropy for every parameter."""
        logits, back = self.forward(images)
        gradient = (softmax(logits) - np.eye(CLASSES, dtype=np.float32)[labels]) / np.float32(len(labels))
        found: list[Floats] = []
        for layer in reversed(back):
            gradient, of_parameters = layer(gradient)
            found = of_parameters + found
        return dict(zip(self.parameters, found, strict=True))


def correlate(images: Floats, kernels: Floats) -> Floats:
    """[n, c, h, w] with kernels [o, c, 3, 3] gives [n, o, h, w]; the border is padded with one zero."""
    result: Floats = np.tensordot(windows(images), kernels, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
    return result


def windows(images: Floats) -> Floats:
    """Every 3x3 neighbourhood: [n, c, h, w, 3, 3]."""
    return sliding_window_view(np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))


def convolve(images: Floats, kernels: Floats, bias: Floats) -> tuple[Floats, Gradients]:
    """A 3x3 convolution and ReLU."""
    result = np.maximum(correlate(images, kernels) + bias[:, None, None], 0)

    def gradients(gradient: Floats) -> tuple[Floats, list[Floats]]:
        gradient = gradient * (result > 0)
        of_kernels = np.tensordot(gradient, windows(images), ((0, 2, 3), (0, 2, 3)))
        # The gradient of the input is a convolution with the kernel rotated by 180 degrees.
        of_images = correlate(gradient, kernels.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1])
        return of_images, [of_kernels, gradient.sum((0, 2, 3))]

    return result, gradients


def pool(images: Floats) -> tuple[Floats, Gradients]:
    """The maximum of every 2x2 block. Equal maxima each take the whole gradient; most are 0, at which ReLU stops it."""
    n, c, h, w = images.shape
    blocks = images.reshape(n, c, h // 2, 2, w // 2, 2)
    result = blocks.max((3, 5), keepdims=True)

    def gradients(gradient: Floats) -> tuple[Floats, list[Floats]]:
        return (gradient.reshape(result.shape) * (blocks == result)).reshape(images.shape), []

    return result.reshape(n, c, h // 2, w // 2), gradients


def dense(values: Floats, weights: Floats, bias: Floats) -> tuple[Floats, Gradients]:
    """A fully connected layer: weights [out, in]."""
    flat = values.reshape(len(values), -1)

    def gradients(gradient: Floats) -> tuple[Floats, list[Floats]]:
        return (gradient @ weights).reshape(values.shape), [gradient.T @ flat, gradient.sum(0)]

    return flat @ weights.T + bias, gradients


def softmax(logits: Floats) -> Floats:
    """Probabilities along the last axis."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    probabilities: Floats = powers / powers.sum(-1, keepdims=True)
    return probabilities


def shifted(images: Floats, rng: np.random.Generator) -> Floats:
    """Shift each image by at most a pixel in each direction, so that the network does not learn positions."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moved = sliding_window_view(padded, (8, 8), axis=(2, 3))  # [n, 1, 3, 3, 8, 8]
    rows, columns = rng.choice(3, (2, len(images)), p=(0.15, 0.7, 0.15))
    chosen: Floats = moved[np.arange(len(images)), :, rows, columns]
    return chosen


def train(digits: Digits) -> Network:
    """Adam, with a learning rate that falls along a cosine to 0."""
    rng = np.random.default_rng(SEED)
    network = Network.random(rng)
    first = {name: np.zeros_like(value) for name, value in network.parameters.items()}
    second = {name: np.zeros_like(value) for name, value in network.parameters.items()}
    steps = EPOCHS * (len(digits.labels) // BATCH)
    for step, batch in enumerate(batches(len(digits.labels), rng), 1):
        images = shifted(digits.images[batch], rng)
        rate = RATE * (1 + np.cos(np.pi * step / steps)) / 2
        for name, gradient in network.gradients(images, digits.labels[batch]).items():
            first[name] += 0.1 * (gradient - first[name])
            second[name] += 0.001 * (gradient * gradient - second[name])
            mean = first[name] / (1 - 0.9**step)
            spread = np.sqrt(second[name] / (1 - 0.999**step))
            network.parameters[name] -= (rate * mean / (spread + 1e-8)).astype(np.float32)
    return network


def batches(count: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Indexes of whole batches, in a new order each epoch."""
    for _ in range(EPOCHS):
        yield from np.split(rng.permutation(count)[: count // BATCH * BATCH], count // BATCH)


def to_onnx(network: Network) -> onnx.ModelProto:
    """The network for one image at a time, with softmax at its end."""
    conv = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        _node("Conv", "conv1", "image", **conv),
        _node("Relu", "relu1", "conv1"),
        _node("Conv", "conv2", "relu1", **conv),
        _node("Relu", "relu2", "conv2"),
        _node("MaxPool", "pool", "relu2", kernel_shape=[2, 2], strides=[2, 2]),
        _node("Conv", "conv3", "pool", **conv),
        _node("Relu", "relu3", "conv3"),
        _node("Flatten", "flatten", "relu3", axis=1),
        _node("Gemm", "dense", "flatten", transB=1),
        helper.make_node("Softmax", ["dense"], ["probabilities"], "softmax", axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in network.parameters.items()],
    )
    model = helper.make_model(graph, producer_name="nnhal", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model


def _node(kind: str, name: str, source: str, **attributes: Any) -> onnx.NodeProto:
    parameters = [f"{name}.weight", f"{name}.bias"] if kind in ("Conv", "Gemm") else []
    return helper.make_node(kind, [source, *parameters], [name], name, **attributes)


class Calibration(CalibrationDataReader):
    """Training images for calibration, one by one."""

    def __init__(self, images: Floats) -> None:
        self._images = iter(images)

    def get_next(self) -> dict[str, Floats] | None:  # type: ignore[override] # whose base forgets that None ends it
        """One image as the network's input; None at the end."""
        image = next(self._images, None)
        return None if image is None else {"image": image[None]}


def quantize(model: onnx.ModelProto, images: Floats) -> onnx.ModelProto:
    """The network in int8: one scale for each output channel of a convolution, one for the fully connected weights.

    ``images`` are used for calibration.
    """
    with tempfile.TemporaryDirectory() as directory:
        source, path = Path(directory) / "float32.onnx", Path(directory) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            path,
            Calibration(images),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options={"TensorQuantOverrides": HAL_QUANTIZATION},
        )
        return onnx.load(path)


def accuracy(model: onnx.ModelProto, digits: Digits) -> float:
    """The share of images that the model classifies correctly in ONNX Runtime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    read = [np.argmax(np.asarray(session.run(None, {"image": image[None]})[0])) for image in digits.images]
    return float(np.mean(np.array(read) == digits.labels))


def main() -> None:
    """Train, quantise and write the networks, and print their accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the files go (default: %(default)s)")
    directory: Path = parser.parse_args().output
    logging.getLogger().setLevel(logging.ERROR)  # the quantiser advises a pre-processing that would change nothing

    training, held_out = load()
    with threadpool_limits(1):  # a fixed order of sums
        model = to_onnx(train(training))
    quantized = quantize(model, training.images)

    directory.mkdir(parents=True, exist_ok=True)
    (directory / "digits.onnx").write_bytes(model.SerializeToString(deterministic=True))
    (directory / "digits_int8.onnx").write_bytes(quantized.SerializeToString(deterministic=True))
    np.savez_compressed(directory / "digits_heldout.npz", images=held_out.images, labels=held_out.labels)
    for name, candidate in (("float32", model), ("int8", quantized)):
        print(f"{name}: {accuracy(candidate, held_out):.1%} of {HELD_OUT} held-out images, ", end="")
        print(f"{accuracy(candidate, training):.1%} of {len(training.labels)} training images")


if __name__ == "__main__":
    main()
