"""Lists of known rejects: an operator has accepted that these records are not converted.

::

    # feedferry known rejects 1
    # A line has a code, and the URL of the record or SOURCE@PLACE of a record without one.
    content-too-large https://docs.example.com/map.tif
    # lost in the move of 2019
    torn-end archive/2019.xml@18273

The lines are sorted. A comment belongs to the line after it. A place that would not fit on a line
is a JSON string. PLACE is the byte at which the record begins, the key of a row, or a path
in a tree.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from feedferry.schemas.errors import ConfigError
from feedferry.schemas.reject import Reject
from feedferry.transforms.storage.atomic import write_whole

HEADER = "# feedferry known rejects 1"
_EXPLANATION = (
    "# A line has a code, and the URL of the record or SOURCE@PLACE of a record without one."
)
_VERSIONED = re.compile(r"# feedferry known rejects (\S+)")
_ENTRY = re.compile(r"[a-z0-9-]+ (?=\S)(.+)")
_PLAIN = re.compile(r'(?!")\S(?:[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\S)?')


def entry_of(reject: Reject) -> str:
    """Return the line of a reject in a list.

    >>> entry_of(Reject(code="torn-end", reason="", stage="read", source="a.xml", offset=9))
    'torn-end a.xml@9'
    """
    place = reject.url
    if not place:
        place = f"{reject.source}@{reject.offset if reject.key is None else reject.key}"
    return f"{reject.code} {place if _PLAIN.fullmatch(place) else json.dumps(place)}"


def load_known_rejects(path: str | None) -> frozenset[str]:
    """Return the entries of a list; a list that does not exist yet has none.

    Raises ConfigError for a file that is not a list, with all its errors.
    """
    if path is None:
        return frozenset()
    try:
        status = Path(path).stat()
    except FileNotFoundError:
        return frozenset()
    except OSError as exc:
        raise ConfigError(f"{path}: {exc.strerror}; expected a list of rejects") from exc
    return _load(path, status.st_mtime_ns, status.st_size)


def add_known_rejects(path: Path, entries: Iterable[str]) -> int:
    """Add entries to a list, which is made if it does not exist; return how many are new.

    Comments are kept. Raises ConfigError as `load_known_rejects`.
    """
    comments = _read(path) if path.exists() else {}
    before = len(comments)
    for entry in entries:
        comments.setdefault(entry, [])
    last = comments.pop("", [])
    lines = [line for entry in sorted(comments) for line in (*comments[entry], entry)]
    lines = [HEADER, _EXPLANATION, *lines, *last]
    write_whole(path, "".join(f"{line}\n" for line in lines).encode())
    return len(comments) + bool(last) - before


@lru_cache(maxsize=8)
def _load(path: str, _modified_ns: int, _size: int) -> frozenset[str]:
    return frozenset(_read(Path(path))) - {""}


def _read(path: Path) -> dict[str, list[str]]:
    """Return the comments before each entry, those at the end under an empty entry."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{path}: {exc}; expected a list of rejects in UTF-8") from exc
    version = _VERSIONED.match(lines[0]) if lines else None
    if lines and (version is None or lines[0] != HEADER):
        found = f"version {version[1]}" if version else repr(lines[0][:80])
        raise ConfigError(f"{path}:1: {found}; expected {HEADER!r}")
    comments: dict[str, list[str]] = defaultdict(list)
    pending: list[str] = []
    faults = []
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line.startswith("#"):
            pending += [line] if line not in (HEADER, _EXPLANATION) else []
        elif _ENTRY.fullmatch(line):
            comments[line] += pending
            pending = []
        elif line:
            faults.append(f"{path}:{number}: {line[:80]!r}; expected a code and a URL")
    if faults:
        raise ConfigError("\n".join(faults))
    if pending:
        comments[""] = pending
    return dict(comments)
