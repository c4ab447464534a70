#!/usr/bin/env bash
# Makes a base image without a registry: Debian with Python 3.11, from Debian's archive. Needs mmdebstrap and a Docker engine.
#   deploy/base.sh [IMAGE [MACHINE]]        then: NNHAL_BASE=IMAGE docker compose build
# With MACHINE, amd64 or arm64, it is IMAGE-MACHINE. If that is not this machine's kind, the kernel must have an emulator for it
# (qemu-user-static with binfmt_misc, and arch-test): packages set themselves up.
set -euo pipefail
missing=()
for needed in mmdebstrap docker python3 dpkg; do
  command -v "$needed" >/dev/null || missing+=("$needed")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "deploy/base.sh needs ${missing[*]}: on Debian and Ubuntu 'apt-get install mmdebstrap python3 docker.io'" >&2
  exit 1
fi
if ! docker version >/dev/null 2>&1; then
  echo "deploy/base.sh needs a Docker engine that answers: 'docker version' says why it does not" >&2
  exit 1
fi
image=${1:-nnhal-base:bookworm}${2:+-$2}
machine=${2:-$(dpkg --print-architecture)}
suite=${NNHAL_SUITE:-bookworm}
root=$(mktemp --suffix=.tar)
trap 'rm -f "$root"' EXIT

# What no process reads stays out, as it does in Docker's own slim images.
left_out=()
for folder in doc info locale man; do
  left_out+=(--dpkgopt="path-exclude=/usr/share/$folder/*")
done
# usr-is-merged and its hook stand for usrmerge, which would bring Perl.
mmdebstrap --quiet --architectures="$machine" --variant=minbase --include=python3,python3-venv,ca-certificates,usr-is-merged \
  --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
  --aptopt='APT::Install-Recommends false' "${left_out[@]}" --dpkgopt='path-include=/usr/share/doc/*/copyright' \
  --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/cache/debconf/*-old "$1"/var/log/*' \
  "$suite" "$root"
# 'docker import' says of every image that it is for this machine.
python3 - "$root" "$image" "$machine" <<'END' | docker load --quiet >/dev/null
import hashlib, io, json, sys, tarfile

root, name, machine = sys.argv[1:]
with open(root, "rb") as layer:
    digest = hashlib.file_digest(layer, "sha256").hexdigest()
    config = {
        "architecture": machine, "os": "linux", "config": {"Cmd": ["python3"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}, "history": [{"created_by": "deploy/base.sh"}],
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for file, content in (("config.json", config), ("manifest.json", manifest)):
            text = json.dumps(content).encode()
            entry = tarfile.TarInfo(file)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        entry = tarfile.TarInfo("layer.tar")
        entry.size = layer.seek(0, 2)
        layer.seek(0)
        archive.addfile(entry, layer)
END
docker image inspect --format "$image: {{.Size}} bytes" "$image"
