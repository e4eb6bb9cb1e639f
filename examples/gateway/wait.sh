#!/usr/bin/env bash
# Wait until a gateway has forwarded all feeds: wait.sh URL
set -euo pipefail
until [[ $(curl -sf "$1/getbacklogcount") == 0 ]]; do sleep 0.2; done
