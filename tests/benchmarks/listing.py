"""Reads a listing into records, and does nothing with them."""

import sys
from collections import deque

from transforms.formats import by_name


def main(path: str) -> None:
    """Read all records of a listing, one in memory at a time."""
    with open(path, "rb", buffering=0) as stream:
        deque(by_name("lister-stream").read(stream), maxlen=0)


if __name__ == "__main__":
    main(sys.argv[1])
