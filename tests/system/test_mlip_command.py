"""``nnhal mlip`` as a user runs it, from an ONNX file to a trace and a page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from nnhal.arrays import Array
from tests.support.command import nnhal, nnhal_on_terminal
from tests.support.html import parsed
from tests.support.mlip_onnx import write_digits, write_resnet18


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_digits(folder / "digits.onnx")
    random = np.random.default_rng(1)
    np.savez(folder / "image.npz", image=random.normal(size=(1, 1, 28, 28)).astype(np.float32))
    np.savez(folder / "samples.npz", image=random.normal(size=(4, 1, 28, 28)).astype(np.float32))
    done = nnhal("mlip", "compile", str(folder / "digits.onnx"), "--out", str(folder / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def by_onnxruntime(model: Path, inputs: dict[str, Array]) -> Array:
    (output,) = onnxruntime.InferenceSession(str(model)).run(None, inputs)
    return np.asarray(output)


def test_the_page_tells_of_the_model_that_is_shipped(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs/mlip.md").read_text()
    model = tmp_path / "digits.onnx"
    model.write_bytes((root / "tools/nnhal_tools/demo/data/digits.onnx").read_bytes())
    status, text = nnhal_on_terminal(160, "mlip", "partition", str(model), "--explain")
    assert status == 0
    told = [
        line.rstrip() for line in text.splitlines() if line.startswith(("digits.onnx", "tvmgen", "│", "1: ", "order"))
    ]
    assert len(told) == 11
    assert [line for line in told if f"    {line}\n" not in page] == []
    done = nnhal("mlip", "compile", str(model), "--out", str(tmp_path / "out"))
    (modelled,) = [line for line in done.stdout.splitlines() if line.startswith("tvmgen_mrvl_main_0: fp16")]
    assert modelled in page


def test_a_partition_is_explained(digits: Path) -> None:
    status, text = nnhal_on_terminal(100, "mlip", "partition", str(digits / "digits.onnx"), "--explain")
    assert status == 0
    assert max(map(len, text.splitlines())) <= 100
    assert "flatten + classifier" in text and "REVERTED: got a softmax" in text
    done = nnhal("mlip", "partition", str(digits / "digits.onnx"), "--public", "--json")
    (subgraph,) = json.loads(done.stdout)["subgraphs"]
    assert [kernel["layer"] for kernel in subgraph["kernels"]] == [
        "layout_transform",
        "Conv2D",
        "Maxpool2D",
        "Conv2D",
        "Maxpool2D",
        "FC",
    ]


def test_the_first_layers_are_kept_and_nodes_go_to_the_host(digits: Path) -> None:
    model = str(digits / "digits.onnx")
    kept = json.loads(nnhal("mlip", "partition", model, "--keep", "2", "--json").stdout)
    assert [kernel["user_names"] for kernel in kept["subgraphs"][0]["kernels"]] == [[], ["conv1", "relu1"]]
    given = json.loads(nnhal("mlip", "partition", model, "--to-host", "pool1", "--json").stdout)
    assert len(given["subgraphs"]) == 2
    assert "options.to_host" in [host["check"] for host in given["host"] if host["name"] == "pool1"]


def test_a_simulation_is_saved_and_traced(digits: Path, tmp_path: Path) -> None:
    output, trace = tmp_path / "output.npz", tmp_path / "trace.json"
    done = nnhal(
        *("mlip", "simulate", str(digits / "digits.onnx"), "--input", str(digits / "image.npz")),
        *("--output", str(output), "--trace", str(trace), "--json"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert told["modelled"] is True
    with np.load(digits / "image.npz") as arrays:
        expected = by_onnxruntime(digits / "digits.onnx", dict(arrays))
    with np.load(output) as found:
        np.testing.assert_allclose(found["scores:0"], expected, atol=1e-3)
    np.testing.assert_allclose(told["outputs"]["scores:0"], expected, atol=1e-3)
    perf = json.loads(nnhal("mlip", "perf", str(digits / "digits.onnx"), "--json").stdout)
    assert perf["cycles"] == told["binaries"]["tvmgen_mrvl_main_0"]["cycles"]
    events = json.loads(trace.read_text())["traceEvents"]
    assert "conv1 + relu1" in {event["name"] for event in events}


def test_the_two_programs_of_the_proposal_compile_a_pair_and_run_a_binary(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = digits / "out" / "tvmgen_mrvl_main_0"
    done = nnhal(
        *("mlip", "build", "--model_name", "cnn", "--nodes", f"{files}-nodes.json", "--consts", f"{files}-consts.json"),
        *("--arch=MLIP", "--dram_addr_relocatable=1", "--ocm_base=0x0", "-ocm_size=0x100000"),
        *("--num_tiles=4", "--quantize=float16"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    with np.load(digits / "image.npz") as arrays:
        (tmp_path / "input1.bin").write_bytes(arrays["image"].tobytes())
        expected = by_onnxruntime(digits / "digits.onnx", dict(arrays))
    done = nnhal("mlip", "run", "--model_binary", "cnn.bin", "--inputs", "input1.bin", "--arch=MLIP", "--perf_debug")
    assert (done.returncode, done.stderr) == (0, "")
    assert "conv1 + relu1" in done.stdout
    scores = np.exp(np.fromfile(tmp_path / "cnn-output.bin", np.float32))
    np.testing.assert_allclose(scores / scores.sum(), expected[0], atol=1e-3)


def test_int8_is_calibrated(digits: Path, tmp_path: Path) -> None:
    model, out = str(digits / "digits.onnx"), str(tmp_path / "out")
    refused = nnhal("mlip", "compile", model, "--out", out, "--quantize", "int8")
    assert refused.returncode == 1 and "expected --calibrate FILE.npz" in refused.stderr
    options = ("--quantize", "int8", "--calibrate", str(digits / "samples.npz"), "--num-tiles", "4")
    done = nnhal("mlip", "compile", model, "--out", out, *options, "--json")
    told = json.loads(done.stdout)
    assert {subgraph["quantize"] for subgraph in told["subgraphs"]} == {"int8"}


def test_the_public_flows_words_are_options(digits: Path, tmp_path: Path) -> None:
    done = nnhal(
        *("mlip", "compile", str(digits / "digits.onnx"), "--out", str(tmp_path), "--json"),
        *("--target=mrvl, llvm", "--target-mrvl-mattr=wb_pin_ocm=1,quantize=fp16", "--target-mrvl-num_tiles=2"),
        "--target-mrvl-mcpu=cnf10kb",
    )
    assert json.loads(done.stdout)["target"] == {
        "arch": "mlip",
        "mcpu": "cnf10kb",
        "quantize": "fp16",
        "num_tiles": 2,
        "wb_pin_ocm": True,
        "mode": "sim",
    }


def test_the_page_and_the_listing_are_written(digits: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = nnhal("mlip", "perf", str(digits / "digits.onnx"), "--html", str(page))
    assert done.returncode == 0, done.stderr
    assert "no schedule takes less than" in done.stdout
    assert parsed(page.read_text()).all("title")[0].text == "digits.onnx on MLIP, modelled"
    done = nnhal("mlip", "inspect", str(digits / "out" / "tvmgen_mrvl_main_0.bin"))
    assert done.returncode == 0 and "magic: MRVL" in done.stdout


def test_what_is_wrong_is_said_in_a_sentence(digits: Path, tmp_path: Path) -> None:
    model, out = str(digits / "digits.onnx"), ("--out", str(tmp_path / "out"))
    broken = tmp_path / "broken.bin"
    content = bytearray((digits / "out" / "tvmgen_mrvl_main_0.bin").read_bytes())
    content[5000] ^= 1
    broken.write_bytes(content)
    cases = {
        ("compile", model, *out, "--mattr", "-qantize=int8"): "expected one of arch, quantize, wb_pin_ocm, num_tiles",
        ("compile", model, *out, "--target", "llvm"): "option target: got 'llvm', expected 'mrvl, llvm'",
        ("compile", model, *out, "--num-tiles", "3"): "option num_tiles: got '3', expected one of 1, 2, 4, 8",
        ("compile", model, *out, "--profile", "cn98"): "cn98 cannot be read",
        ("compile", str(tmp_path / "none.onnx"), *out): "No such file",
        ("partition", model, "--to-host", "conv9"): "expected names of nodes of the model: conv1",
        ("partition", model, "--shape", "image"): "expected INPUT:1x3x224x224",
        ("simulate", model, "--input", model): "it does not begin as arrays do; expected an npz file",
        ("perf", str(tmp_path / "none.onnx")): "No such file",
        ("inspect", str(broken)): "byte",
    }
    for arguments, expected in cases.items():
        done = nnhal("mlip", *arguments)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("nnhal: ") and expected in done.stderr


def test_an_unknown_option_is_answered_with_the_known_ones(digits: Path) -> None:
    done = nnhal("mlip", "compile", str(digits / "digits.onnx"), "--tiles", "2")
    assert done.returncode == 2
    words = " ".join(done.stderr.replace("│", " ").split())
    assert "No such option: --tiles" in words
    assert all(option in words for option in ("--num-tiles", "--quantize", "--wb-pin-ocm", "--calibrate", "--out"))


def test_resnet18_is_simulated_as_a_whole(tmp_path: Path) -> None:
    model = write_resnet18(tmp_path / "resnet18.onnx")
    image = np.random.default_rng(4).normal(size=(1, 3, 224, 224)).astype(np.float32)
    np.savez(tmp_path / "image.npz", image=image)
    compiled = nnhal("mlip", "compile", str(model), "--out", str(tmp_path / "out"), "--json")
    (subgraph,) = json.loads(compiled.stdout)["subgraphs"]
    kinds = [layer["kind"] for layer in subgraph["layers"]]
    assert (kinds.count("Conv2D"), kinds.count("Sum2D"), len(kinds)) == (20, 8, 32)
    output = tmp_path / "output.npz"
    done = nnhal("mlip", "simulate", str(model), "--input", str(tmp_path / "image.npz"), "--output", str(output))
    assert (done.returncode, done.stderr) == (0, "")
    expected = by_onnxruntime(model, {"image": image})
    with np.load(output) as found:
        np.testing.assert_allclose(found["fc:0"], expected, atol=5e-3)
