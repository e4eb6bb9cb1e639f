#!/bin/sh
# A transformer that does as its first argument says: TROUBLE METADATA PARAMS
case $1 in
    add) printf 'added\0yes\0' >>"$2" ;;
    params) cat "$3" >"$2" ;;
    clear) : >"$2" ;;
    renamed) printf 'b\0002\0a\0001\0' >"$2.new" && mv "$2.new" "$2" ;;
    bytes) printf 'raw\0\377\0' >"$2" ;;
    exit) printf 'lost\0' >"$2"; printf 'no such name\n' >&2; exit 3 ;;
    odd) printf 'a\0' >"$2" ;;
    torn) printf 'a\0b' >"$2" ;;
    name) printf '\377\0b\0' >"$2" ;;
    gone) rm "$2" ;;
    big) head -c 2000 /dev/zero >"$2" ;;
esac
