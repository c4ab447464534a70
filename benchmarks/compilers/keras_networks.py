"""Networks of Keras with random weights, quantised to 8 bits by TensorFlow after training: written as TFLite files.

Run by the interpreter of TensorFlow's environment: ``keras_networks.py FOLDER NAME ...``. It imports nothing of nnhal.
A network is the same each time: weights, statistics and calibration images come from seeds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

_SEED = 33
_CALIBRATION = 4
"""Inputs by which the ranges of activations are measured."""


def _application(name: str, side: int, **options: object) -> Callable[[], Any]:
    def build() -> Any:
        return getattr(keras.applications, name)(input_shape=(side, side, 3), weights=None, **options)

    return build


def _convolution(x: Any, channels: int, kernel: int = 3, stride: int = 1) -> Any:
    return layers.Conv2D(channels, kernel, stride, padding="same")(x)


def _yolo_like() -> Any:
    """A detector's backbone and neck with LeakyReLU."""
    given = x = keras.Input((160, 160, 3))
    kept = []
    for channels in (16, 32, 64, 128):
        x = layers.LeakyReLU(0.1)(_convolution(x, channels, 3, 2))
        half = layers.LeakyReLU(0.1)(_convolution(x, channels // 2, 1))
        x = layers.Add()([x, layers.LeakyReLU(0.1)(_convolution(half, channels))])
        kept.append(x)
    x = layers.LeakyReLU(0.1)(_convolution(x, 64, 1))
    twice = layers.Lambda(lambda each: tf.compat.v1.image.resize_nearest_neighbor(each, (20, 20)))
    x = layers.Concatenate()([twice(x), kept[-2]])
    x = layers.LeakyReLU(0.1)(_convolution(x, 64))
    return keras.Model(given, [_convolution(x, 18, 1), _convolution(kept[-1], 18, 1)])


def _transformer() -> Any:
    """Two encoder layers over patches of an image."""
    given = keras.Input((64, 64, 3))
    x = layers.Reshape((64, 64))(layers.Conv2D(64, 8, 8)(given))
    for _ in range(2):
        normed = layers.LayerNormalization(epsilon=1e-3)(x)
        x = layers.Add()([x, layers.MultiHeadAttention(4, 16)(normed, normed)])
        hidden = layers.Dense(128, activation="relu")(layers.LayerNormalization(epsilon=1e-3)(x))
        x = layers.Add()([x, layers.Dense(64)(hidden)])
    return keras.Model(given, layers.Dense(10, activation="softmax")(layers.GlobalAveragePooling1D()(x)))


def _branches() -> Any:
    """Six equal branches, each of three convolutions."""
    given = keras.Input((64, 64, 16))
    ends = []
    for _ in range(6):
        x = given
        for channels in (32, 32, 8):
            x = layers.ReLU()(_convolution(x, channels))
        ends.append(x)
    return keras.Model(given, layers.Concatenate()(ends))


def _unet() -> Any:
    given = x = keras.Input((96, 96, 3))
    kept = []
    for channels in (16, 32, 64):
        x = layers.ReLU()(_convolution(x, channels))
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = layers.ReLU()(_convolution(x, 96))
    for channels, skip in zip((64, 32, 16), reversed(kept), strict=True):
        x = layers.Concatenate()([layers.Conv2DTranspose(channels, 2, 2, padding="same")(x), skip])
        x = layers.ReLU()(_convolution(x, channels))
    return keras.Model(given, layers.Conv2D(1, 1, activation="sigmoid")(x))


def _resnet8() -> Any:
    """The image classifier of MLPerf Tiny."""
    given = keras.Input((32, 32, 3))
    x = layers.ReLU()(layers.BatchNormalization()(_convolution(given, 16)))
    for channels, stride in ((16, 1), (32, 2), (64, 2)):
        y = layers.ReLU()(layers.BatchNormalization()(_convolution(x, channels, 3, stride)))
        y = layers.BatchNormalization()(_convolution(y, channels))
        shortcut = x if stride == 1 else _convolution(x, channels, 1, stride)
        x = layers.ReLU()(layers.Add()([shortcut, y]))
    x = layers.Flatten()(layers.AveragePooling2D(8)(x))
    return keras.Model(given, layers.Dense(10, activation="softmax")(x))


def _autoencoder() -> Any:
    """The anomaly detector of MLPerf Tiny."""
    given = x = keras.Input((640,))
    for width in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        x = layers.ReLU()(layers.BatchNormalization()(layers.Dense(width)(x)))
    return keras.Model(given, layers.Dense(640)(x))


def _keywords() -> Any:
    """The keyword spotter of MLPerf Tiny: depthwise separable convolutions."""
    given = keras.Input((49, 10, 1))
    x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, (10, 4), 2, padding="same")(given)))
    for _ in range(4):
        x = layers.ReLU()(layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x)))
        x = layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(64, 1)(x)))
    x = layers.Flatten()(layers.AveragePooling2D((25, 5))(x))
    return keras.Model(given, layers.Dense(12, activation="softmax")(x))


def _temporal() -> Any:
    """A temporal convolutional network: causal, dilated, with residuals."""
    given = x = keras.Input((256, 32))
    for dilation in (1, 2, 4, 8):
        y = layers.Conv1D(32, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = layers.ReLU()(layers.Add()([x, layers.Conv1D(32, 1)(y)]))
    return keras.Model(given, layers.Dense(6)(layers.GlobalAveragePooling1D()(x)))


def _super_resolution() -> Any:
    """ESPCN: its last step moves channels to space."""
    given = keras.Input((96, 96, 1))
    x = layers.Conv2D(32, 5, padding="same", activation="tanh")(given)
    x = layers.Conv2D(16, 3, padding="same", activation="tanh")(x)
    x = layers.Conv2D(4, 3, padding="same")(x)
    return keras.Model(given, layers.Lambda(lambda each: tf.nn.depth_to_space(each, 2))(x))


def _squeezenet() -> Any:
    given = keras.Input((128, 128, 3))
    x = layers.MaxPooling2D(3, 2)(layers.Conv2D(64, 3, 2, activation="relu")(given))
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
        x = layers.Conv2D(squeezed, 1, activation="relu")(x)
        both = [layers.Conv2D(4 * squeezed, size, padding="same", activation="relu")(x) for size in (1, 3)]
        x = layers.Concatenate()(both)
        if number in (1, 3):
            x = layers.MaxPooling2D(3, 2)(x)
    x = layers.GlobalAveragePooling2D()(layers.Conv2D(100, 1, activation="relu")(x))
    return keras.Model(given, layers.Softmax()(x))


NETWORKS: dict[str, Callable[[], Any]] = {
    "resnet8": _resnet8,
    "keywords": _keywords,
    "autoencoder": _autoencoder,
    "temporal": _temporal,
    "branches": _branches,
    "yolo_like": _yolo_like,
    "transformer": _transformer,
    "unet": _unet,
    "super_resolution": _super_resolution,
    "squeezenet": _squeezenet,
    "mobilenet_0.25_96": _application("MobileNet", 96, alpha=0.25),
    "mobilenet_0.5_128": _application("MobileNet", 128, alpha=0.5),
    "mobilenet_v2_0.35_96": _application("MobileNetV2", 96, alpha=0.35),
    "mobilenet_v3_small_224": _application("MobileNetV3Small", 224),
    "mobilenet_v3_large_224": _application("MobileNetV3Large", 224),
    "efficientnet_b0_224": _application("EfficientNetB0", 224),
    "efficientnet_v2_b0_224": _application("EfficientNetV2B0", 224),
    "densenet121_224": _application("DenseNet121", 224),
    "resnet50_224": _application("ResNet50", 224),
    "resnet50_v2_224": _application("ResNet50V2", 224),
    "nasnet_mobile_224": _application("NASNetMobile", 224),
    "inception_v3_299": _application("InceptionV3", 299),
    "xception_299": _application("Xception", 299),
}
"""Each with its input of one image, by the name of its file."""


def write(name: str, folder: Path) -> None:
    """Make one network."""
    keras.utils.set_random_seed(_SEED)
    model = NETWORKS[name]()
    random = np.random.default_rng(_SEED)
    shape = (1, *model.inputs[0].shape[1:])
    _settle(model, random.uniform(0, 255, (2, *shape[1:])).astype(np.float32))

    def images() -> Iterator[list[Any]]:
        for _ in range(_CALIBRATION):
            yield [random.uniform(0, 255, shape).astype(np.float32)]

    run = tf.function(lambda image: model(image, training=False), input_signature=[tf.TensorSpec(shape, tf.float32)])
    frozen = convert_variables_to_constants_v2(run.get_concrete_function())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([frozen])
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = images
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    made = folder / f"{name}.tflite"
    unfinished = made.with_suffix(".part")
    unfinished.write_bytes(converter.convert())
    unfinished.rename(made)


def _settle(model: Any, images: Any) -> None:
    """Give batch normalisations the statistics of some images, so that activations keep their size through depth."""
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.0
    model(images, training=True)


if __name__ == "__main__":
    target, *names = sys.argv[1:]
    for each in names or NETWORKS:
        if not (Path(target) / f"{each}.tflite").exists():
            print(each, file=sys.stderr)
            write(each, Path(target))
