"""The small programs of the tests, as commands, and what a lister lists."""

import sys
from pathlib import Path

from feedferry.schemas.record import Action, Arrival, Provenance, Record

FOLDER = Path(__file__).parent / "programs"
HEADER = "GSA Adaptor Data Version 1 [\n]\n"


def shell(name: str, *args: str) -> tuple[str, ...]:
    """The command of a shell script."""
    return ("/bin/sh", str(FOLDER / name), *args)


def python(name: str, *args: str) -> tuple[str, ...]:
    """The command of a Python program, without what it takes long to look for."""
    return (sys.executable, "-I", "-S", str(FOLDER / name), *args)


def stream(*lines: str) -> bytes:
    """A command stream with a command on each line."""
    return (HEADER + "\n".join(lines) + "\n").encode()


def listed(url: str, *, action: Action = Action.ADD) -> Record:
    """A document as a lister names it."""
    return Record(
        url=url,
        action=action,
        arrival=Arrival.CRAWLED if action is Action.ADD else None,
        provenance=Provenance(source="listing", span=2, offset=33),
    )
