"""What a plain script does with a listing: take its lines apart, keep nothing."""

import sys

_BLOCK_BYTES = 1 << 17


def main(path: str) -> None:
    """Print how many ids a listing has, and how many characters are in them."""
    ids = characters = 0
    with open(path, "rb") as stream:
        rest = b""
        while block := stream.read(_BLOCK_BYTES):
            *lines, rest = (rest + block).split(b"\n")
            found = [line[3:].decode() for line in lines if line.startswith(b"id=")]
            ids += len(found)
            characters += sum(map(len, found))
    print(ids, characters)


if __name__ == "__main__":
    main(sys.argv[1])
