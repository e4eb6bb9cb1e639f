#!/bin/sh
# Start a worker if a runner of Beam starts the container, a program by its name, or feedferry.
case "${1-}" in
  --id=* | --worker_pool*) exec "${BEAM_BOOT:-/opt/apache/beam/boot}" "$@" ;;
  dask | python | sh) exec "$@" ;;
  *) exec feedferry "$@" ;;
esac
