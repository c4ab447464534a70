#!/bin/sh
# What the Dockerfile runs in stages that are thrown away: puts packages into /opt/nnhal, and takes out what no process loads.
#   install.sh requirements FILE [FOLDER]   what nnhal needs, without nnhal: a layer that is made again only if the file changes. Packages
#                                           of FOLDER, made for this kind of machine, replace others
#   install.sh nnhal                        nnhal itself, from ./source, into /own/opt/nnhal
#   install.sh client                       of nnhal what a client imports
set -eu
packages=""
if ls wheels/*.whl >/dev/null 2>&1; then packages="--no-index --find-links wheels"; fi
libraries=$(echo /opt/nnhal/lib/python3*/site-packages)
install() {
  # shellcheck disable=SC2086
  pip/bin/pip --python /opt/nnhal/bin/python install --quiet --no-compile $packages "$@"
}
# With MACHINE the packages are those of another kind of machine, which nothing here runs; their commands are left out.
install_requirements() {
  if [ -z "${MACHINE:-}" ]; then
    install -r "$1"
    return
  fi
  # shellcheck disable=SC2046
  install $(python3 requirements.py --machine "$MACHINE") --target "$libraries" -r "$1"
  rm -rf "$libraries/bin"
}

what=$1 made=
shift
case $what in
  requirements)
    install_requirements "$1"
    if [ -z "${MACHINE:-}" ] && ls "${2:-.}"/*.whl >/dev/null 2>&1; then
      install --no-deps --force-reinstall "$2"/*.whl
      /opt/nnhal/bin/python -B -c 'import numpy' # what was compiled with a newer C library than the image's fails here
    fi
    # Tests of libraries, and what only compilers and type checkers read. ONNX's are not in such folders: nnhal_tools.onnx_backend runs them.
    find "$libraries" -type d -name tests -prune -exec rm -rf {} +
    find "$libraries" -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.a' -o -name '*.h' -o -name '*.hpp' \) -delete
    rm -rf "$libraries"/numpy/f2py "$libraries"/numpy/distutils "$libraries"/numpy/_core/*_tests.*.so "$libraries"/numpy/_core/_simd.*.so
    rm -rf "$libraries"/onnxruntime/transformers "$libraries"/onnxruntime/tools "$libraries"/onnxruntime/quantization
    ;;
  nnhal | client)
    made=/own
    install --no-deps --root "$made" ./source
    if [ "$what" = client ]; then
      find "$made$libraries" -maxdepth 1 -name 'nnhal_*' ! -name nnhal_client -exec rm -rf {} +
      rm "$made/opt/nnhal/bin/nnhal"
    fi
    ;;
esac
# Containers have a read-only root: what is not compiled now would be compiled at every start. Some libraries bring templates
# that are no Python.
python3 -m compileall -q -j 0 -s "$made" -p / "$made/opt/nnhal/lib" >/dev/null || true
