#!/bin/sh
# Behaves as its first argument says.
case $1 in
    say) printf %s "$2" ;;
    warn) printf %s "$2" >&2 ;;
    exit) printf half; printf 'no such disk\n' >&2; exit "$2" ;;
    die) printf half; kill -s "$2" $$ ;;
    hang) printf half; exec sleep 60 ;;
    endless) exec yes ;;
    chatter) head -c 300000 /dev/zero | tr '\0' x >&2; printf 'the end' >&2; head -c 300000 /dev/zero ;;
    echo) cat ;;
    deaf) exec <&-; printf heard ;;
    mute) exec >&- 2>&-; sleep "$2" ;;
    stubborn) trap '' TERM; while :; do sleep 1; done ;;
    leave) printf whole; sleep 60 & exit "$2" ;;
    leave-quietly) sleep 60 >/dev/null 2>&1 & printf %s $! ;;
    family) sleep 60 & printf '%s %s' $$ $!; wait ;;
    where) pwd ;;
    tell) eval "printf 'denied to %s' \"\$$2\"" >&2; exit 1 ;;
esac
