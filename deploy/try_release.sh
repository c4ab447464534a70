#!/usr/bin/env bash
# Installs the distributions of a folder, each into an empty environment, and runs the digits from there by their own door.
#   deploy/try_release.sh [DIST [PYTHON]]
set -euo pipefail
dist=$(cd "${1:-dist}" && pwd)
python=${2:-python3.11}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$(dirname "$0")/../pyproject.toml" | head -1)
unset PYTHONPATH
cd "$root" # nothing of the repository is in reach

# install NAME DISTRIBUTION…: an environment of that name with them, and nothing else
install() {
  "$python" -m venv "$1"
  "$1/bin/pip" install --quiet --disable-pip-version-check "${@:2}"
}

nnhal="nnhal[all] @ file://$dist/nnhal-$version-py3-none-any.whl"
echo "== nnhal: nnhal demo"
install nnhal "$nnhal"
nnhal/bin/nnhal demo

echo "== nnhal-native: the devices, by libneuralnetworks.so"
install native "$nnhal" "$dist"/nnhal_native-"$version"-*.whl
cat > devices.py <<'END'
import ctypes

library = ctypes.CDLL("libneuralnetworks.so")
count, device, name = ctypes.c_uint32(), ctypes.c_void_p(), ctypes.c_char_p()
assert library.ANeuralNetworks_getDeviceCount(ctypes.byref(count)) == 0
for number in range(count.value):
    assert library.ANeuralNetworks_getDevice(number, ctypes.byref(device)) == 0
    assert library.ANeuralNetworksDevice_getName(device, ctypes.byref(name)) == 0
    print(name.value.decode())
assert count.value >= 2
END
native/bin/nnhal native run -- native/bin/python devices.py

echo "== nnhal-onnxruntime: a digit, by ONNX Runtime"
install ort "$nnhal" "$dist"/nnhal_onnxruntime-"$version"-*.whl
cat > digit.py <<'END'
import numpy as np
import nnhal_tools.demo
import onnxruntime
from pathlib import Path

model = Path(nnhal_tools.demo.__file__).parent / "data/digits.onnx"
session = onnxruntime.InferenceSession(model)
assert session.get_providers()[0] == "NnhalExecutionProvider", session.get_providers()
(scores,) = session.run(None, {"image": np.zeros((1, 1, 8, 8), np.float32)})
print(session.get_providers(), scores.argmax())
END
ort/bin/nnhal up --directory "$root/run" --no-dashboard &
framework=$!
trap 'kill "$framework" 2>/dev/null || true; wait "$framework" 2>/dev/null || true; rm -rf "$root"' EXIT
until ort/bin/nnhal health "$root/run/framework" 2>/dev/null; do
  kill -0 "$framework" # it has said why it ended
  sleep 0.5
done
NNHAL_FRAMEWORK=$root/run/framework ort/bin/nnhal ort -- ort/bin/python digit.py
echo "== all of $(ls "$dist" | tr '\n' ' ') work"
