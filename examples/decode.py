"""Greedy decoding with a small GPT, whose key and value caches stay on the device.

    python examples/decode.py                           # beside ONNX Runtime alone
    python examples/decode.py --devices mlip,cpu_acc    # feed-forward layers in int8 on an NPU, attention on the CPU
    python examples/decode.py --serve                   # over V2 and a stream of gRPC, too
    python examples/decode.py --growing                 # caches that begin with nothing, and grow by a token each time

The weights are random, so the tokens mean nothing; all ways have to generate the same ones.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from statistics import median
from typing import Any, Self

import grpc
import numpy as np
import onnx
import onnxruntime
from numpy.typing import ArrayLike, DTypeLike
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import nnhal_client
from nnhal.arrays import Array
from nnhal.errors import NnhalError
from nnhal.inference import grpc_service_pb2 as wire
from nnhal_tools.up import DeviceEntry, Testbed, Topology

NAME = "gpt"
FIRST = 1
"""The token that a generation begins with."""
LAYERS, HEADS, HEAD, VOCABULARY = 4, 4, 32, 1000
WIDTH = HEADS * HEAD
POSITIONS = 1024
"""How many tokens the model can tell apart by their place."""
FEED_FORWARD = "feed_forward"
STATES = {f"{kind}{layer}": f"{kind}{layer}_next" for layer in range(LAYERS) for kind in "kv"}
"""The caches of keys and values: inputs, and the outputs that are their next values."""
Step = Callable[[int, int], Array]


class _Graph:
    """Nodes and weights of a graph. Each method returns the name of what it adds."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}
        self._random = np.random.default_rng(seed)

    def node(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """A node, which is called as its result."""
        name = name or f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, name: str, value: ArrayLike, kind: DTypeLike = np.float32) -> str:
        """A constant."""
        self.constants[name] = np.array(value, kind)
        return name

    def weights(self, name: str, rows: int, columns: int, deviation: float) -> str:
        """A random matrix."""
        return self.constant(name, self._random.normal(0, deviation, (rows, columns)))

    def linear(self, x: str, name: str, rows: int, columns: int, kind: str = "MatMul") -> str:
        """A product with a matrix, which keeps the size of the values. A Gemm has a bias too, of zeros."""
        parameters = [self.weights(f"{name}.weights", rows, columns, rows**-0.5)]
        if kind == "Gemm":
            parameters.append(self.constant(f"{name}.bias", np.zeros(columns)))
        return self.node(kind, x, *parameters, name=name)

    def norm(self, x: str, name: str) -> str:
        """A normalised layer."""
        scale = self.constant(f"{name}.scale", np.ones(WIDTH))
        return self.node("LayerNormalization", x, scale, self.constant(f"{name}.bias", np.zeros(WIDTH)), name=name)


def gpt(past: int | None, seed: int = 0) -> onnx.ModelProto:
    """A decoder of one token a run: ``token`` and ``position`` [1, 1] and the caches, to ``logits`` [1, 1000].

    With ``past`` each cache keeps so many tokens, [1, 4, past, 32], the newest at its end: it begins with zeros, which
    a mask hides. With None its length is open: a cache begins with no token, and each run adds one.
    """
    g = _Graph(seed)
    flat, heads = g.constant("flat", [1, WIDTH], np.int64), g.constant("heads", [1, HEADS, 1, HEAD], np.int64)
    scale = g.constant("scale", HEAD**-0.5)
    words, places = g.weights("words", VOCABULARY, WIDTH, 1), g.weights("places", POSITIONS, WIDTH, 1)
    x = g.node("Add", g.node("Gather", words, "token"), g.node("Gather", places, "position"))
    x = g.node("Reshape", x, flat)
    cut: list[str] = []
    if past:
        cut = [g.constant(name, [value], np.int64) for name, value in (("first", 1), ("last", past), ("axis", 2))]
        too_old = g.node("Greater", g.constant("ages", np.arange(past - 1, -1, -1), np.int64), "position")
        mask = g.node("Where", too_old, g.constant("never", -1e9), g.constant("always", 0))
    for n in range(LAYERS):
        y = g.norm(x, f"layer{n}/norm1")
        query, key, value = (
            g.node("Reshape", g.linear(y, f"layer{n}/{name}", WIDTH, WIDTH), heads) for name in ("q", "k", "v")
        )
        keys, values = (
            g.node("Concat", g.node("Slice", name, *cut) if past else name, new, name=STATES[name], axis=2)
            for name, new in ((f"k{n}", key), (f"v{n}", value))
        )
        scores = g.node("Mul", g.node("MatMul", query, g.node("Transpose", keys, perm=[0, 1, 3, 2])), scale)
        if past:
            scores = g.node("Add", scores, mask)
        y = g.node("Reshape", g.node("MatMul", g.node("Softmax", scores, axis=-1), values), flat)
        x = g.node("Add", x, g.linear(y, f"layer{n}/mixed", WIDTH, WIDTH))
        y = g.linear(g.norm(x, f"layer{n}/norm2"), f"layer{n}/{FEED_FORWARD}/up", WIDTH, 4 * WIDTH, "Gemm")
        y = g.node("Relu", y, name=f"layer{n}/{FEED_FORWARD}/relu")
        x = g.node("Add", x, g.linear(y, f"layer{n}/{FEED_FORWARD}/down", 4 * WIDTH, WIDTH, "Gemm"))
    g.linear(g.norm(x, "norm"), "logits", WIDTH, VOCABULARY)
    numbers, integers = TensorProto.FLOAT, TensorProto.INT64
    of_caches = [1, HEADS, past or "past", HEAD], [1, HEADS, past or "longer", HEAD]
    graph = helper.make_graph(
        g.nodes,
        NAME,
        [helper.make_tensor_value_info(name, integers, [1, 1]) for name in ("token", "position")]
        + [helper.make_tensor_value_info(name, numbers, of_caches[0]) for name in STATES],
        [helper.make_tensor_value_info("logits", numbers, [1, VOCABULARY])]
        + [helper.make_tensor_value_info(name, numbers, of_caches[1]) for name in STATES.values()],
        [numpy_helper.from_array(value, name) for name, value in g.constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def growing(most: int | None = POSITIONS) -> dict[str, tuple[int, int, tuple[int, int | None], int]]:
    """The dimensions of caches that begin with no token, and take ``most``."""
    return dict.fromkeys(STATES, (1, HEADS, (0, most), HEAD))


class Frames(CalibrationDataReader):
    """Inputs of the model in a generation, for the quantiser."""

    def __init__(self, frames: Iterable[dict[str, Array]]) -> None:
        self._frames = iter(frames)

    def get_next(self) -> dict[str, Array] | None:  # type: ignore[override] # whose base forgets that None ends it
        """The inputs of one token; None at the end."""
        return next(self._frames, None)


def quantised(model: onnx.ModelProto, tokens: int) -> onnx.ModelProto:
    """The model with feed-forward layers of int8 (QDQ), calibrated with the ``tokens`` that it generates."""
    logging.getLogger().setLevel(logging.ERROR)  # the quantiser advises a pre-processing that would change nothing
    alone = OnnxRuntime(model)
    frames: list[dict[str, Array]] = []
    token = FIRST
    for position in range(tokens):
        frames.append({**alone.caches, "token": np.array([[token]]), "position": np.array([[position]])})
        token = int(alone.step(token, position).argmax())
    with tempfile.TemporaryDirectory() as directory:
        source, path = Path(directory) / "float32.onnx", Path(directory) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            path,
            Frames(frames),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
            nodes_to_quantize=[node.name for node in model.graph.node if FEED_FORWARD in node.name],
            extra_options={"ActivationSymmetric": True},  # mlip has no other 8-bit values
        )
        return onnx.load(path)


# Four ways to the next token. Each has ``step(token, position)``, which returns the logits, [1, 1000].


class OnnxRuntime:
    """ONNX Runtime in this process, with one thread as a device has. The caches are fed back by hand."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        shapes = {given.name: given.shape for given in self._session.get_inputs()}
        # A past of no fixed length begins with none.
        self.caches: dict[str, Array] = {
            name: np.zeros([n if isinstance(n, int) else 0 for n in shapes[name]], np.float32) for name in STATES
        }

    def step(self, token: int, position: int) -> Array:
        """Run it, and keep the caches."""
        inputs = {**self.caches, "token": np.array([[token]]), "position": np.array([[position]])}
        logits, *caches = self._session.run(["logits", *STATES.values()], inputs)
        self.caches = dict(zip(STATES, map(np.asarray, caches), strict=True))
        return np.asarray(logits)


class Bound:
    """A binding of nnhal's, whose caches stay on the devices: on this host, or a sequence of a server's."""

    def __init__(self, binding: nnhal_client.Binding | nnhal_client.V2Binding) -> None:
        self._binding = binding

    def step(self, token: int, position: int) -> Array:
        """Write the two numbers where the device reads them, and run."""
        self._binding.inputs["token"][...] = token
        self._binding.inputs["position"][...] = position
        self._binding.run()
        return self._binding.outputs["logits"]


class Streamed:
    """One ModelStreamInfer call for all tokens, whose requests are one sequence. Use as a context."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._requests: SimpleQueue[wire.ModelInferRequest | None] = SimpleQueue()
        call = self._channel.stream_stream(
            "/inference.GRPCInferenceService/ModelStreamInfer",
            wire.ModelInferRequest.SerializeToString,
            wire.ModelStreamInferResponse.FromString,
        )
        self._answers = iter(call(iter(self._requests.get, None)))
        self._sequence = secrets.randbits(62) | 1

    def step(self, token: int, position: int) -> Array:
        """Send a token's request, and wait for its answer."""
        request = wire.ModelInferRequest(model_name=NAME)
        for name, value in (("token", token), ("position", position)):
            request.inputs.add(name=name, datatype="INT64", shape=[1, 1])
            request.raw_input_contents.append(value.to_bytes(8, "little"))
        request.parameters["sequence_id"].int64_param = self._sequence
        request.parameters["sequence_start"].bool_param = position == 0
        self._requests.put(request)
        answer = next(self._answers)
        if answer.error_message:
            sys.exit(f"the server refused a token: {answer.error_message}")
        return np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32).reshape(1, VOCABULARY)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._channel.close()


def write_repository(folder: Path, model: onnx.ModelProto, pins: Mapping[str, str], grows: bool) -> Path:
    """Write the model as a server has it: its configuration says which inputs and outputs are the state, and whether it
    grows from nothing.

    Returns the model's file.
    """
    growth = (
        f"use_growable_memory: true dims: [1, {HEADS}, -1, {HEAD}] "
        f"initial_state {{ data_type: TYPE_FP32 dims: [1, {HEADS}, 0, {HEAD}] zero_data: true }} "
    )
    more = growth if grows else ""
    states = "".join(
        f'  state {{ input_name: "{before}" output_name: "{after}" {more}}}\n' for before, after in STATES.items()
    )
    config = f"sequence_batching {{\n  direct {{}}\n  max_sequence_idle_microseconds: 60000000\n{states}}}\n"
    if pins:
        placement = "; ".join(f"{what}={device}" for what, device in pins.items())
        config += f'parameters {{ key: "nnhal.placement" value {{ string_value: "{placement}" }} }}\n'
    path = folder / NAME / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())
    (folder / NAME / "config.pbtxt").write_text(config)
    return path


@contextmanager
def running(repository: Path, devices: Sequence[str], serves: bool) -> Iterator[tuple[Path, str]]:
    """Run devices and a framework; yields its directory, and its address over gRPC, which is empty if it has none."""
    options: dict[str, bool | int | str] = {"allow_http": False, "allow_metrics": False, "allow_grpc": serves}
    address = ""
    if serves:
        with socket.create_server(("127.0.0.1", 0)) as free:
            options |= {"model_repository": str(repository), "grpc_port": free.getsockname()[1]}
        address = f"127.0.0.1:{options['grpc_port']}"
    topology = Topology(device=tuple(DeviceEntry(driver=name) for name in devices), framework=options)
    with tempfile.TemporaryDirectory(prefix="nnhal-") as directory, Testbed(topology, Path(directory)) as testbed:
        yield testbed.framework, address


def generate(ways: Mapping[str, Step], count: int) -> tuple[dict[str, list[int]], dict[str, float]]:
    """Let each way generate ``count`` tokens, all of them in turn for each token. Returns tokens, and medians in s."""
    tokens = {name: [FIRST] for name in ways}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for position in range(count):
        for name, step in ways.items():
            begun = time.perf_counter()
            tokens[name].append(int(step(tokens[name][-1], position).argmax()))
            seconds[name].append(time.perf_counter() - begun)
    return {name: found[1:] for name, found in tokens.items()}, {name: median(s) for name, s in seconds.items()}


def show_places(model: nnhal_client.Model, token: Array) -> None:
    """Say what runs where, and what one token copies between devices."""
    with model.bind(measure_timing=True) as binding:
        binding.inputs["token"][...] = token
        report = binding.run()
    for device in dict.fromkeys(step.device for step in report.steps):
        operations = sum(place.device == device for place in model.placements)
        print(f"{device}: {operations} operations in {sum(s.device == device for s in report.steps)} steps")
    print(f"{sum(step.copied_bytes for step in report.steps)} bytes copied for a token")


def main() -> None:
    """Generate tokens in all ways that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="how many (default: %(default)s)")
    parser.add_argument("--past", type=int, default=256, metavar="N", help="length of caches (default: %(default)s)")
    parser.add_argument("--growing", action="store_true", help="caches that grow by each token, from nothing on")
    parser.add_argument("--seed", type=int, default=0, help="what the weights are drawn from (default: %(default)s)")
    parser.add_argument(
        "--devices",
        default="cpu_acc",
        help="ethos_n,cpu_acc or mlip,cpu_acc: the NPU runs the feed-forward layers in int8 (default: %(default)s)",
    )
    parser.add_argument("--serve", action="store_true", help="generate over V2 and over a stream of gRPC, too")
    parser.add_argument("--v2", metavar="HOST:PORT", help="as --serve, over a server that has the model")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write a model repository for --v2, and end")
    given = parser.parse_args()
    if not 1 <= given.tokens <= POSITIONS or given.past < 1:
        parser.error(f"--tokens is 1 to {POSITIONS}, --past 1 or more")

    devices = given.devices.split(",")
    model = gpt(None if given.growing else given.past, given.seed)
    pins = {}
    if devices[0] != "cpu_acc":
        pins = {f"name:*/{FEED_FORWARD}/{layer}": devices[0] for layer in ("up", "relu", "down")}
        model = quantised(model, min(given.tokens, given.past))
    if given.write:
        write_repository(given.write, model, pins, given.growing)
        print(f"nnhal up --model-repository {given.write} serves it")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = write_repository(folder, model, pins, given.growing)
        directory, address = stack.enter_context(running(folder, devices, given.serve and not given.v2))
        framework = stack.enter_context(nnhal_client.connect(directory))
        ranges = growing() if given.growing else None
        loaded = stack.enter_context(framework.load(path, states=STATES, pins=pins, dimensions=ranges))
        show_places(loaded, np.array([[FIRST]]))
        ways: dict[str, Step] = {
            "ONNX Runtime alone": OnnxRuntime(model).step,
            "nnhal": Bound(stack.enter_context(loaded.bind())).step,
        }
        if address := given.v2 or address:
            server = nnhal_client.connect(address, native=False)
            stack.enter_context(server)
            ways["nnhal over V2"] = Bound(server.open(NAME).bind()).step
            ways["nnhal, streamed"] = stack.enter_context(Streamed(address)).step
        tokens, seconds = generate(ways, given.tokens)
    for name, found in tokens.items():
        print(f"{name:20}{1 / seconds[name]:7.0f} tokens a second: {' '.join(map(str, found[:10]))} …")
    if any(found != tokens["ONNX Runtime alone"] for found in tokens.values()):
        sys.exit("the tokens differ")


if __name__ == "__main__":
    try:
        main()
    except NnhalError as error:
        sys.exit(str(error))
