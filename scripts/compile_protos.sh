#!/usr/bin/env bash
# Compiles protos/*.proto to elastic_keras/wire/proto/*_pb2.py and *_pb2.pyi.
#
# The committed modules are made by the protoc of the 4.25 line (grpcio-tools
# 1.62): what it generates checks no version when it is imported and works
# with protobuf 4 to 7, so with whatever protobuf TensorFlow asks for. Newer
# generated code refuses to import under an older protobuf.
#
# Usage: scripts/compile_protos.sh [PYTHON]
#   PYTHON: an interpreter of 3.8 to 3.12 to make the compiler's own virtual
#   environment with; default python3.11.
set -euo pipefail
cd "$(dirname "$0")/.."

python="${1:-python3.11}"
tools="$(mktemp -d)"
trap 'rm -rf "$tools"' EXIT
"$python" -m venv "$tools"
"$tools/bin/pip" install --quiet 'grpcio-tools==1.62.*' 'setuptools<81'

# The virtual path makes the modules import each other as
# elastic_keras.wire.proto.*_pb2.
files=()
for file in protos/*.proto; do
  files+=("elastic_keras/wire/proto/$(basename "$file")")
done
"$tools/bin/python" -m grpc_tools.protoc \
  -Ielastic_keras/wire/proto=protos --python_out=. --pyi_out=. "${files[@]}"
