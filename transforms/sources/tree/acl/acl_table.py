"""ACLs from a table: a row for each principal that is permitted or denied the files of a pattern.

**Reads:** CSV in UTF-8 with a header, as in RFC 4180: `pattern`, `access` (permit or deny), `scope`
(user or group) and `name`; optional `namespace` and `case_sensitive` (true or false). Patterns are
those of `--include`. A table with a row that is not understood is not used at all, and a file
without a matching row is rejected: otherwise it would be public.
"""

import csv
import io
import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from feedferry.schemas.acl import ACCESSES, SCOPES, Acl, Principal
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.transforms.sources.tree.rules.patterns import glob

AclOfKey = Callable[[str], Acl]

_FLAG = "⟦acl⟧"
_NEEDED = ("pattern", "access", "scope", "name")
_KNOWN = (*_NEEDED, "namespace", "case_sensitive")
_COLUMNS = f"{','.join(_NEEDED)}, and namespace and case_sensitive optional, each once"
_SENSITIVITIES = {"": None, "true": True, "false": False}
_TABLES = 4

_T = TypeVar("_T")


def load_acl_table(path: str) -> AclOfKey:
    """Return the function that makes the ACL of a file's key from all rows that match it.

    Raise ConfigError with all bad rows of the table. The function raises RecordError for a key that
    no row matches. A table is read again only after it has changed.
    """
    try:
        status = os.stat(path)
        return _load(path, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    except OSError as exc:
        reason = f"{exc.strerror}; expected a table that can be read"
        raise ConfigError(f"{_FLAG} {path}: {reason}") from exc


@lru_cache(maxsize=_TABLES)
def _load(path: str, *_signature: int) -> AclOfKey:
    matches: dict[str, Callable[[str], bool]] = {}
    principals: list[tuple[str, Principal]] = []
    faults = []
    rows = _rows(path)
    columns = _columns(path, *next(rows, (1, [])))
    for line, values in rows:
        try:
            pattern, principal = _parse_row(columns, values)
            if pattern not in matches:
                matches[pattern] = glob(pattern)
            principals.append((pattern, principal))
        except (ConfigError, ValueError) as exc:
            faults.append(f"{_FLAG} {path}:{line}: {exc}")
    if faults:
        raise ConfigError("\n".join(faults))

    name = Path(path).name

    def acl_of(key: str) -> Acl:
        matching = {pattern for pattern, is_match in matches.items() if is_match(key)}
        if not matching:
            reason = f"no row of {name} for {key!r}; expected one: the pattern ** is for all files"
            raise RecordError("no-acl-row", reason)
        chosen = (principal for pattern, principal in principals if pattern in matching)
        return Acl(principals=tuple(dict.fromkeys(chosen)))

    return acl_of


def _rows(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the values of each row that is not empty, with its first line."""
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        reason = f"byte {exc.start}: not UTF-8; expected a table in UTF-8"
        raise ConfigError(f"{_FLAG} {path}: {reason}") from exc
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            values = [value.strip() for value in row]
            if any(values):
                yield line, values
            line = reader.line_num + 1
    except csv.Error as exc:
        raise ConfigError(f"{_FLAG} {path}:{line}: {exc}; expected a row of CSV") from exc


def _columns(path: str, line: int, header: list[str]) -> list[str]:
    columns = [name.lower() for name in header]
    is_known = set(_NEEDED) <= set(columns) <= set(_KNOWN)
    if not is_known or len(set(columns)) < len(columns):
        shown = ",".join(header)
        raise ConfigError(f"{_FLAG} {path}:{line}: the header {shown!r}; expected {_COLUMNS}")
    return columns


def _parse_row(columns: list[str], values: list[str]) -> tuple[str, Principal]:
    if len(values) != len(columns):
        raise ValueError(f"{len(values)} columns; expected as many as the header has")
    row = dict(zip(columns, values, strict=True))
    if torn := [value for value in values if "\n" in value]:
        raise ValueError(f"{torn[0]!r}; expected a value in one line: a quote may be missing")
    for column in ("pattern", "name"):
        if not row[column]:
            raise ValueError(f"no {column}; expected one")
    principal = Principal(
        name=row["name"],
        scope=_value_of(row, "scope", SCOPES),
        access=_value_of(row, "access", ACCESSES),
        namespace=row.get("namespace") or None,
        case_sensitive=_value_of(row, "case_sensitive", _SENSITIVITIES),
    )
    return row["pattern"], principal


def _value_of(row: Mapping[str, str], column: str, values: Mapping[str, _T]) -> _T:
    name = row.get(column, "").lower()
    if name not in values:
        expected = " or ".join(known or "nothing" for known in values)
        raise ValueError(f"{column}={name!r}; expected {expected}")
    return values[name]
