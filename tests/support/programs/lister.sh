#!/bin/sh
# A lister that does as its first argument says; good ids are a and b.
header() { printf 'GSA Adaptor Data Version 1 [\n]\n'; }
case $1 in
    good) header; printf 'id=a\nlast-modified=1000\nlock\nid=b\n' ;;
    exit) header; printf 'id=a\n'; printf 'no such disk\n' >&2; exit 3 ;;
    hang) header; exec sleep 60 ;;
    endless) header; exec yes id=a ;;
    garbage) printf 'no such command' ;;
    empty) ;;
    nothing) header ;;
esac
