#!/usr/bin/env bash
# feedferry on a fresh checkout.
#   ./run_local.sh             set up, convert the bundled sample and push it to a rehearsal
#                              appliance on this machine; all files are in runs/
#   ./run_local.sh test        set up, then run lint, types, import contracts, the fast tests and one
#                              slow test of each kind: six minutes on two cores
#   ./run_local.sh test-all    set up, then run these checks and all tests
#   ./run_local.sh test-rest   set up, then run the tests that `test` leaves out, as CI does
#   ./run_local.sh test-cluster  set up, then test a Flink cluster and search servers on this machine:
#                              needs Java 17 (OpenSearch 3: Java 21) and Maven, 900 MB of downloads
#                              the first time and 20 minutes
#   ./run_local.sh VERB …      run the command, as in: ./run_local.sh convert --help
set -euo pipefail

HERE=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
VENV=$HERE/.venv
SAMPLE_FLAGS=(--to thunderstone --accept-loss acl --profile sample)
WAIT_SECONDS=60
COUNT_DOCUMENTS='
import json, sys, time, urllib.request
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
while (index := json.load(ask(sys.argv[1], timeout=60)))["backlog"]:
    time.sleep(0.1)
print(len(index["documents"]))
'

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

# The stamp of an environment: a hash of pyproject.toml, the folder and the kind of set-up.
stamp_of() { { cat "$HERE/pyproject.toml"; printf '%s %s' "$HERE" "$1"; } | cksum; }

make_venv() {
  local python
  "$VENV/bin/python" -c '' 2>/dev/null && return
  python=$(find_python)
  say "Making .venv with $("$python" --version) …"
  rm -rf "$VENV"
  if ! "$python" -P -m venv "$VENV" >&2; then
    rm -rf "$VENV"
    say 'run_local.sh: this Python makes no virtual environment; on Debian: apt-get install python3-venv'
    return 1
  fi
}

# set_up run installs the command, set_up dev also the libraries of its tests.
set_up() {
  local kind=$1 installed
  make_venv
  for installed in "$kind" dev; do
    [[ -f $VENV/stamp-$installed && $(<"$VENV/stamp-$installed") == "$(stamp_of "$installed")" ]] && return
  done
  say "Installing feedferry ($kind) into .venv, a minute or two …"
  local target=$HERE
  [[ $kind == run ]] || target+="[$kind]"
  "$VENV/bin/python" -P -m pip install --quiet --disable-pip-version-check --no-input \
    --editable "$target" >&2
  stamp_of "$kind" >"$VENV/stamp-$kind"
  say 'Installed.'
}

# Run a check; after a failure, the other checks run as well.
failed=()
step() {
  local title=$1
  say "── $title"
  shift
  "$@" || failed+=("$title")
}

check_code() {
  step 'lint: ruff check' ruff check --quiet .
  step 'layout: ruff format' ruff format --quiet --check .
  step 'types: mypy' mypy
  step 'imports: lint-imports' lint-imports --no-cache --no-logo
}

# Run the tests that have these markers, and report the checks that failed.
run_tests() {
  step 'tests: pytest' pytest -q -rfE -m "$1"
  if ((${#failed[@]})); then
    say '── failed:' && printf '     %s\n' "${failed[@]}" >&2
    return 1
  fi
  say '── all checks passed'
}

# The rehearsal appliance prints its URL on the first line when it listens.
start_appliance() {
  local spool=$1 url_file=$1/url waited
  mkdir -p -- "$spool"
  : >"$url_file"
  "$VENV/bin/feedferry" serve --spool "$spool" --port 0 --min-free 0 --quiet >"$url_file" &
  APPLIANCE=$!
  trap stop_appliance EXIT
  for ((waited = 0; waited < WAIT_SECONDS * 10; waited++)); do
    read -r URL <"$url_file" && return
    kill -0 "$APPLIANCE" 2>/dev/null || return 1
    sleep 0.1
  done
  say "run_local.sh: the rehearsal appliance does not listen after $WAIT_SECONDS s"
  return 1
}

stop_appliance() {
  kill "$APPLIANCE" 2>/dev/null && wait "$APPLIANCE"
} 2>/dev/null

run_sample() {
  local run documents code=0
  cd -- "$HERE"
  run=runs/sample-$(date -u +%Y%m%dT%H%M%SZ)
  start_appliance "$run-appliance"
  say "── the bundled sample, to a rehearsal appliance at $URL"
  "$VENV/bin/feedferry" convert pipelines/sample -o "$run" "${SAMPLE_FLAGS[@]}" \
    --push-to "$URL/texis/dowalk/recvdata.xml" || code=$?
  documents=$("$VENV/bin/python" -P -c "$COUNT_DOCUMENTS" "$URL/documents")
  printf 'appliance %s documents; ./run_local.sh serve --spool %s shows them\n' "$documents" "$run-appliance"
  printf 'next      %s\n' \
    "open $run/report.html in a browser" \
    "export PATH=\"$VENV/bin:\$PATH\"   # then: feedferry --help" \
    "feedferry init --source FOLDER --target URL -o job.yaml   # a job of your own; docs/quickstart.md explains it"
  return "$code"
}

case ${1-} in
  '')
    set_up run
    run_sample
    ;;
  test | test-all | test-rest)
    set_up dev
    cd -- "$HERE"
    PATH=$VENV/bin:$PATH
    case $1 in
      test) check_code && run_tests 'not slow or kind' ;;
      test-all) check_code && run_tests '' ;;
      test-rest) run_tests 'slow and not kind' ;;
    esac
    ;;
  test-cluster)
    set_up dev
    cd -- "$HERE"
    exec timeout -s INT -k 60 5400 "$VENV/bin/pytest" -q -rfEs -m "" -n0 --durations=0 tests/cluster tests/search
    ;;
  *)
    set_up run
    exec "$VENV/bin/feedferry" "$@"
    ;;
esac
