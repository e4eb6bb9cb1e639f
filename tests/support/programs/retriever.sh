#!/bin/sh
# A retriever that does as its first argument says: TROUBLE ID MILLIS
trouble=$1 id=$2 millis=$3
header() { printf 'GSA Adaptor Data Version 1 [\n]\n'; }
document() { header; printf 'id=%s\nmime-type=text/plain\ncontent\n%s at %s' "$1" "$1" "$millis"; }
case $trouble in
    good) document "$id" ;;
    exit) document "$id"; printf 'no such disk\n' >&2; exit 3 ;;
    hang) document "$id"; exec sleep 60 ;;
    endless) header; printf 'id=%s\ncontent\n' "$id"; exec yes ;;
    garbage) printf 'no such command'; printf 'what?' >&2 ;;
    empty) ;;
    nothing) header ;;
    other) document "not-$id" ;;
    echo) printf -- '-e '; document "$id" ;;
    unavailable) header; printf 'id=%s\nrepository-unavailable=at night\n' "$id" ;;
    not-found) header; printf 'id=%s\nnot-found\n' "$id" ;;
    up-to-date) header; printf 'id=%s\nup-to-date\n' "$id" ;;
    second) header; printf 'id=%s\nid=z\ncontent\n' "$id" ;;
    bad-acl) header; printf 'id=%s\nacl\nacl-permit-user=\ncontent\n' "$id" ;;
    big) document "$id"; head -c 2000000 /dev/zero; exit 3 ;;
    as-id) exec /bin/sh "$0" "$id" "$id" "$millis" ;;
    first-fails) [ -e "seen-$id" ] || { : >"seen-$id"; exit 3; }; document "$id" ;;
    first-unavailable)
        [ -e "seen-$id" ] || { : >"seen-$id"; exec /bin/sh "$0" unavailable "$id"; }
        document "$id" ;;
esac
