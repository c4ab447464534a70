#!/usr/bin/env bash
# Makes a base image without a registry: Debian with Python 3.11, from Debian's archive. Needs mmdebstrap and a Docker engine.
#   deploy/base.sh [IMAGE]        then: NNHAL_BASE=IMAGE docker compose build
set -euo pipefail
image=${1:-nnhal-base:bookworm}
suite=${NNHAL_SUITE:-bookworm}
root=$(mktemp --suffix=.tar)
trap 'rm -f "$root"' EXIT

# What no process reads stays out, as it does in Docker's own slim images.
left_out=()
for folder in doc info locale man; do
  left_out+=(--dpkgopt="path-exclude=/usr/share/$folder/*")
done
# usr-is-merged and its hook stand for usrmerge, which would bring Perl.
mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates,usr-is-merged \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --aptopt='APT::Install-Recommends false' "${left_out[@]}" --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/cache/debconf/*-old "$1"/var/log/*' \
  "$suite" "$root"
docker import --change 'CMD ["python3"]' "$root" "$image" >/dev/null
docker image inspect --format "$image: {{.Size}} bytes" "$image"
