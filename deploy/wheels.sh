#!/usr/bin/env bash
# Fetches what nnhal's image installs into deploy/wheels, for builds that reach no package index: the build takes packages from
# there alone if there are any. Needs the Python version of the base image, and nothing of Docker.
#   deploy/wheels.sh [PYTHON [MACHINE…]]     also for other machines: deploy/wheels.sh python3.11 arm64
set -euo pipefail
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
du -sh "$deploy/wheels"
