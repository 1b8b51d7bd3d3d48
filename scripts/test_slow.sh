#!/usr/bin/env bash
# Sets up .venv and runs the tests that scripts/test.sh leaves out. Arguments
# go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment dev
.venv/bin/python -m pytest -m slow "$@"
