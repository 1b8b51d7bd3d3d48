#!/usr/bin/env bash
# Sets up .venv and runs everything that must pass: format, lint, types,
# tests, two files of them at a time, without the slow ones (test_slow.sh).
# Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment dev
.venv/bin/ruff format --check .
.venv/bin/ruff check .
.venv/bin/mypy elastic_keras
.venv/bin/python -m pytest --numprocesses=2 --dist=loadfile \
  -m "not slow" "$@"
