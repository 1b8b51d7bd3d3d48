# Sourced by train.sh and test.sh: the virtual environment in .venv.

readonly OLDEST_PYTHON="3.10"
readonly NEWEST_PYTHON="3.13"

# Prints the path of a Python that can make the environment.
find_python() {
  local candidate path without_venv=""
  for candidate in ${PYTHON:-python3 python3.12 python3.11 python3.13 \
    python3.10 python}; do
    path="$(command -v "$candidate")" || continue
    "$path" -c "
import sys
oldest, newest = (tuple(map(int, text.split('.'))) for text in sys.argv[1:])
sys.exit(not oldest <= sys.version_info[:2] <= newest)
" "$OLDEST_PYTHON" "$NEWEST_PYTHON" 2>/dev/null || continue
    if "$path" -c "import ensurepip, venv" 2>/dev/null; then
      echo "$path"
      return
    fi
    without_venv="$path"
  done
  if [[ -n "$without_venv" ]]; then
    echo "error: $without_venv cannot make virtual environments: its" \
      "ensurepip is missing. Install it (Debian, Ubuntu: the package" \
      "python3-venv), or name another Python: PYTHON=/path/to/python $0" >&2
  else
    echo "error: no Python $OLDEST_PYTHON to $NEWEST_PYTHON found. Install" \
      "one, or name it: PYTHON=/path/to/python $0" >&2
  fi
  return 2
}

# Makes .venv and installs this package in it, if that is not done yet.
# $1: the extras to install, or nothing.
ensure_environment() {
  local extras="$1" stamp python wanted
  stamp=".venv/.installed${extras:+-$extras}"
  wanted="$(cat setup.py pyproject.toml | cksum)"
  if [[ -x .venv/bin/python && -f "$stamp" ]] &&
    [[ "$(cat "$stamp")" == "$wanted" ]]; then
    return
  fi
  if [[ ! -x .venv/bin/python ]] ||
    ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    python="$(find_python)"
    echo "Making .venv with $python"
    "$python" -m venv --clear .venv
  fi
  echo "Installing elastic_keras and what it needs into .venv"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --editable ".${extras:+[$extras]}"
  echo "$wanted" >"$stamp"
}
