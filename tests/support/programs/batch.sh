#!/bin/sh
# A retriever of batches that does as its first argument says: TROUBLE ID MILLIS ID MILLIS …
# The ids that it was called with go to a line of the file "calls".
trouble=$1
shift
answer() {
    stream=$(/bin/sh "${0%batch.sh}retriever.sh" "$1" "$2" "$3")
    printf '%s\n%s' ${#stream} "$stream"
}
ids=
for word; do case $word in 0) ;; *) ids="$ids $word" ;; esac; done
printf '%s\n' "$ids" >>calls
count=$#
while [ $# -gt 1 ]; do
    case $trouble.$1 in
        poison.b) exit 3 ;;
        torn.b) printf '9999\nGSA' ; exit ;;
        short.b) exit ;;
        night.b)
            if [ "$count" = 2 ]; then answer good b "$2"; else answer unavailable b "$2"; fi ;;
        other.b) answer other b "$2" ;;
        *) answer good "$1" "$2" ;;
    esac
    shift 2
done
case $trouble in long) printf 'more' ;; unframed) printf 'GSA' ;; esac
