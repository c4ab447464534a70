#!/usr/bin/env bash
# Fetches what nnhal's image installs into deploy/wheels, for builds that reach no package index: the build takes packages from
# there alone if there are any. Needs the Python version of the base image, and nothing of Docker.
#   deploy/wheels.sh [PYTHON [MACHINE…]]     also for other machines: deploy/wheels.sh python3.11 arm64
#   deploy/wheels.sh --client …              also numpy without OpenBLAS, for the image of clients: 28 MB less, and slower products of
#                                            matrices. Only for this kind of machine. It is compiled, once for each version of numpy, which
#                                            takes a compiler for C and C++, Python's headers and some minutes
set -euo pipefail
client=
if [ "${1:-}" = --client ]; then client=1 && shift; fi
python=${1:-python3.11}
shift || true
deploy=$(cd "$(dirname "$0")" && pwd)
rm -f "$deploy"/wheels/*.whl
mapfile -t packages < <("$python" "$deploy/requirements.py" "$deploy/../pyproject.toml" all otel --build)
"$python" -m pip wheel --quiet --wheel-dir "$deploy/wheels" "${packages[@]}"
for machine in "$@"; do
  mapfile -t options < <("$python" "$deploy/requirements.py" --machine "$machine")
  "$python" -m pip download --quiet --dest "$deploy/wheels" "${options[@]}" "${packages[@]}"
done
if [ -n "$client" ]; then
  numpy=$(basename "$deploy"/wheels/numpy-*_"$(uname -m)".whl | cut -d- -f2)
  if ! ls "$deploy/wheels/client/numpy-$numpy"-*.whl >/dev/null 2>&1; then
    rm -rf "$deploy/wheels/client"
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    "$python" -m venv "$made" && "$made/bin/pip" install --quiet 'pip>=23.1' # the first that takes an option more than once
    "$made/bin/pip" wheel --quiet --no-deps --no-binary numpy --wheel-dir "$deploy/wheels/client" -Cinstall-args=--tags=runtime,python-runtime \
      -Csetup-args=-Dblas=none -Csetup-args=-Dlapack=none -Csetup-args=-Dallow-noblas=true -Csetup-args=-Dcpu-dispatch=none "numpy==$numpy"
  fi
fi
du -sh "$deploy/wheels"
