#!/usr/bin/env bash
# feedferry on a fresh checkout.
#   ./run_local.sh             set-up, then a conversion of the bundled sample into runs/
#   ./run_local.sh test        set-up, then everything that CI checks
#   ./run_local.sh VERB …      the command itself, as in: ./run_local.sh convert --help
set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
VENV=$HERE/.venv
SAMPLE_FLAGS=(--to thunderstone --accept-loss acl)

say() { printf '%s\n' "$*" >&2; }

find_python() {
  local name
  for name in python3.11 python3.12 python3.13 python3 python; do
    if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  say 'run_local.sh: no Python 3.11 or later on PATH; expected python3.11, python3.12 or python3.13'
  return 1
}

# The stamp tells for which pyproject.toml, at which place and for what the environment was made.
stamp_of() { { cat "$HERE/pyproject.toml"; printf '%s %s' "$HERE" "$1"; } | cksum; }

make_venv() {
  local python
  "$VENV/bin/python" -c '' 2>/dev/null && return
  python=$(find_python)
  say "Making .venv with $("$python" --version) …"
  rm -rf "$VENV"
  if ! "$python" -m venv "$VENV" >&2; then
    rm -rf "$VENV"
    say 'run_local.sh: this Python makes no virtual environment; on Debian: apt-get install python3-venv'
    return 1
  fi
}

# set_up run installs the command, set_up dev also what its tests need.
set_up() {
  local kind=$1 made
  make_venv
  for made in "$kind" dev; do
    [[ -f $VENV/stamp-$made && $(<"$VENV/stamp-$made") == "$(stamp_of "$made")" ]] && return
  done
  say "Installing feedferry ($kind) into .venv, a minute or two …"
  local target=$HERE
  [[ $kind == run ]] || target+="[$kind]"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --editable "$target" >&2
  stamp_of "$kind" >"$VENV/stamp-$kind"
  say 'Installed.'
}

# A step that fails does not keep the others from telling what they find.
step() {
  local title=$1
  say "── $title"
  shift
  "$@" || failed+=("$title")
}

run_tests() {
  local -a failed=()
  cd -- "$HERE"
  export PATH=$VENV/bin:$PATH
  step 'lint: ruff check' ruff check --quiet .
  step 'layout: ruff format' ruff format --quiet --check .
  step 'types: mypy' mypy
  step 'floors: lint-imports' lint-imports --no-cache --no-logo
  step 'tests: pytest' pytest -q -rs
  if ((${#failed[@]})); then
    say '── these did not pass:' && printf '     %s\n' "${failed[@]}" >&2
    return 1
  fi
  say '── all checks passed'
}

run_sample() {
  cd -- "$HERE"
  exec "$VENV/bin/feedferry" convert pipelines/sample -o "runs/sample-$(date -u +%Y%m%dT%H%M%SZ)" \
    "${SAMPLE_FLAGS[@]}"
}

case ${1-} in
  '')
    set_up run
    run_sample
    ;;
  test)
    set_up dev
    run_tests
    ;;
  *)
    set_up run
    exec "$VENV/bin/feedferry" "$@"
    ;;
esac
