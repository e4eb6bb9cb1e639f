"""The folder of a gateway: `forward`, in the spool of its receiver.

It has the ACLs and groups that a gateway to a search server keeps, unless a state is stated.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from feedferry.pipelines.options.convert_options import ACLS_SUFFIX
from feedferry.schemas.delivery import JOURNAL, Delivery
from feedferry.schemas.errors import ConfigError
from feedferry.transforms.sources.spool import read_deliveries
from feedferry.transforms.storage.files.journal import Journal

FORWARD = "forward"
"""The folder of a gateway in a spool: its journal, and the runs that have rejects."""

FORWARDED = "forwarded.jsonl"
"""The journal of a gateway, in its folder."""

_STATE = "state"


class _ForwardedLine(msgspec.Struct, frozen=True):
    """The deliveries of a line of the journal of a gateway."""

    ordinal: int
    together: tuple[int, ...] = ()


def acls_in(spool: Path) -> Path:
    """Return the file of the ACLs that a gateway keeps in a spool."""
    return spool / FORWARD / f"{_STATE}{ACLS_SUFFIX}"


def find_spool(text: str) -> Path | None:
    """Return the spool at a path: it, or the folder of its gateway; None for another path."""
    path = Path(text)
    found = (path, path.parent) if path.name == FORWARD else (path,)
    return next((spool for spool in found if (spool / JOURNAL).is_file()), None)


def find_acls(text: str, spool: Path) -> Path:
    """Return the file of the ACLs that a gateway keeps; raise ConfigError if there is none."""
    path = acls_in(spool)
    if not path.exists():
        raise ConfigError(
            f"{text}: no {path.relative_to(spool)}; expected the spool of a gateway that has"
            " forwarded ACLs to a search server, or the file next to its ⟦state⟧"
        )
    return path


def waiting_deliveries(spool: Path) -> Iterator[Delivery]:
    """Yield the deliveries of a spool after the last one that its gateway has processed."""
    decode = msgspec.json.Decoder(_ForwardedLine).decode
    lines = Journal(spool / FORWARD / FORWARDED, decode, expected="the outcome of a delivery")
    last = max((max(line.ordinal, *line.together, 0) for line in lines.read()), default=0)
    return (delivery for delivery in read_deliveries(spool) if delivery.ordinal > last)
