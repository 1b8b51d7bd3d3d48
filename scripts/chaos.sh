#!/usr/bin/env bash
# Sets up .venv and runs everything in tests/chaos, the long forms too, with
# what it counted and the seeds it took. Arguments go to pytest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/environment.sh

ensure_environment dev
.venv/bin/python -m pytest -m "chaos or slow" -s tests/chaos "$@"
