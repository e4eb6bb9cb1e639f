#!/usr/bin/env bash
# Print the documents of an index that a user finds: search.sh INDEX USER [--groups GROUP,...]
set -euo pipefail
index=$1
shift
filter=$(feedferry access "$@")
curl -s "http://127.0.0.1:19900/$index/_search?filter_path=hits.hits._id" \
  -H 'Content-Type: application/json' \
  -d '{"size": 100, "sort": "url", "query": {"bool": {"filter": '"$filter"'}}}' |
  python3 -c 'import json, sys; print(*(hit["_id"] for hit in json.load(sys.stdin).get("hits", {}).get("hits", [])), sep="\n")'
