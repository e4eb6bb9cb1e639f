"""An authorizer that does as its first argument says.

It permits a user what the user's name begins with, and denies the rest.
"""

import os
import signal
import sys
import time


def main(trouble: str) -> None:
    _header, _, question = sys.stdin.buffer.read().decode().partition("]\0")
    lines = question.split("\0")
    results = [line.partition("=") for line in lines]
    with open("asked", "a") as asked:
        asked.write(" ".join(line for line in lines if line) + "\n")
    user = next(value for name, _, value in results if name == "username")
    docids = [value for name, _, value in results if name == "id"]
    if trouble == "password":
        sys.exit("denied to " + next(value for name, _, value in results if name == "password"))
    if trouble == "hang":
        time.sleep(60)
    if trouble == "empty":
        return
    sys.stdout.write("GSA Adaptor Data Version 1 [\n]\n")
    for docid in docids:
        answer(trouble, user, docid)
    sys.stdout.flush()
    if trouble == "exit":
        sys.exit("no such disk")
    if trouble == "signal":
        os.kill(os.getpid(), signal.SIGKILL)


def answer(trouble: str, user: str, docid: str) -> None:
    status = "PERMIT" if user.startswith(docid) else "DENY"
    if docid == "b" and trouble == "missing":
        return
    if docid == "b" and trouble == "maybe":
        status = "INDETERMINATE"
    if docid == "b" and trouble == "small":
        status = status.lower()
    if docid == "b" and trouble == "unavailable":
        sys.stdout.write("repository-unavailable=at night\n")
    elif docid == "b" and trouble == "nameless":
        sys.stdout.write("id\nauthz-status=PERMIT\n")
    elif docid == "b" and trouble == "unreadable":
        sys.stdout.write("id=b\nauthz-status=PERMIT\nnot-found\n")
    else:
        sys.stdout.write(f"id={docid}\nauthz-status={status}\n")
    if trouble == "more":
        sys.stdout.write(f"id=not-{docid}\nauthz-status=PERMIT\n")


if __name__ == "__main__":
    main(sys.argv[1])
