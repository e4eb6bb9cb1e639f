"""Reads a listing into records, and does nothing with them."""

import sys
from collections import deque

from transforms.formats import READERS


def main(path: str) -> None:
    """Read all records of a listing, one in memory at a time."""
    with open(path, "rb", buffering=0) as stream:
        deque(READERS["lister-stream"](stream), maxlen=0)


if __name__ == "__main__":
    main(sys.argv[1])
