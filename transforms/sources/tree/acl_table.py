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
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError, RecordError
from transforms.sources.tree.patterns import judge
from transforms.sources.tree.tree import Tree

AclOfKey = Callable[[str], Acl]

_FLAG = "--acl"
_NEEDED = ("pattern", "access", "scope", "name")
_KNOWN = (*_NEEDED, "namespace", "case_sensitive")
_COLUMNS = f"{','.join(_NEEDED)}, and namespace and case_sensitive optional, each once"
_ACCESSES = {access.value.lower(): access for access in Access}
_SCOPES = {scope.value.lower(): scope for scope in Scope}
_SENSITIVITIES = {"": None, "true": True, "false": False}
_TABLES = 4


class _Rule(NamedTuple):
    """The principals of a pattern, each with its line in the table."""

    matches: Callable[[str], bool]
    principals: list[tuple[int, Principal]]


def load_acl_table(path: str) -> AclOfKey:
    """Return the function that makes the ACL of a file's key from all rows that match it.

    Raise ConfigError with all bad rows of the table. The function raises RecordError for a key that
    no row matches. A table is read again only after it has changed.
    """
    try:
        status = os.stat(path)
        return _load(path, status.st_size, status.st_mtime_ns)
    except OSError as exc:
        reason = f"{exc.strerror}; expected a table that can be read"
        raise ConfigError(f"{_FLAG} {path}: {reason}") from exc


@lru_cache(maxsize=_TABLES)
def _load(path: str, _size: int, _modified_ns: int) -> AclOfKey:
    rules = _rules(path)

    def acl_of(key: str) -> Acl:
        matching = [row for rule in rules if rule.matches(key) for row in rule.principals]
        if not matching:
            reason = f"no row of {path} for {key!r}; expected one: the pattern ** is for all files"
            raise RecordError("no-acl-row", reason)
        ordered = (principal for _, principal in sorted(matching, key=itemgetter(0)))
        return Acl(principals=tuple(dict.fromkeys(ordered)))

    return acl_of


def _rules(path: str) -> list[_Rule]:
    rules: dict[str, _Rule] = {}
    faults = []
    for line, row in _rows(path):
        try:
            pattern, principal = _parse_row(row)
            rule = rules.get(pattern) or _Rule(_matcher(pattern), [])
        except ValueError as exc:
            faults.append(f"{_FLAG} {path}:{line}: {exc}")
            continue
        rules.setdefault(pattern, rule).principals.append((line, principal))
    if faults:
        raise ConfigError("\n".join(faults))
    return list(rules.values())


def _rows(path: str) -> Iterator[tuple[int, list[str] | Mapping[str, str]]]:
    """Yield the rows by column, with their lines; a row of another width as a list."""
    rows = _lists(path)
    line, header = next(rows, (1, []))
    columns = [name.lower() for name in header]
    unknown = [name for name in columns if name not in _KNOWN]
    if unknown or len(set(columns)) < len(columns) or not set(columns) >= set(_NEEDED):
        found = f"the column {unknown[0]!r}" if unknown else f"the header {','.join(header)!r}"
        raise ConfigError(f"{_FLAG} {path}:{line}: {found}; expected {_COLUMNS}")
    for number, values in rows:
        is_whole = len(values) == len(columns)
        yield number, dict(zip(columns, values, strict=True)) if is_whole else values


def _lists(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the values of each row that is not empty, with its first line."""
    reader = csv.reader(io.StringIO(_read(path), newline=""), strict=True)
    line = 1
    try:
        for row in reader:
            values = [value.strip() for value in row]
            if any(values):
                yield line, values
            line = reader.line_num + 1
    except csv.Error as exc:
        raise ConfigError(f"{_FLAG} {path}:{line}: {exc}; expected a row of CSV") from exc


def _read(path: str) -> str:
    text = Path(path).read_bytes()
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = text.count(b"\n", 0, exc.start) + 1
        reason = f"the byte {text[exc.start]:#04x}, which is not UTF-8; expected a table in UTF-8"
        raise ConfigError(f"{_FLAG} {path}:{line}: {reason}") from exc


def _parse_row(row: list[str] | Mapping[str, str]) -> tuple[str, Principal]:
    if isinstance(row, list):
        raise ValueError(f"{len(row)} columns; expected as many as the header has")
    if torn := [value for value in row.values() if "\n" in value]:
        raise ValueError(f"{torn[0]!r}; expected a value in one line: a quote may be missing")
    for column in ("pattern", "name"):
        if not row[column]:
            raise ValueError(f"no {column}; expected one")
    sensitive = row.get("case_sensitive", "").lower()
    principal = Principal(
        name=row["name"],
        scope=_SCOPES[_one_of("scope", row["scope"].lower(), _SCOPES)],
        access=_ACCESSES[_one_of("access", row["access"].lower(), _ACCESSES)],
        namespace=row.get("namespace") or None,
        case_sensitive=_SENSITIVITIES[_one_of("case_sensitive", sensitive, _SENSITIVITIES)],
    )
    return row["pattern"], principal


def _one_of(column: str, value: str, values: Mapping[str, object]) -> str:
    if value not in values:
        expected = " or ".join(name or "nothing" for name in values)
        raise ValueError(f"{column}={value!r}; expected {expected}")
    return value


def _matcher(pattern: str) -> Callable[[str], bool]:
    try:
        code_of = judge(Tree(root="", include=(pattern,), takes_hidden=True))
    except ConfigError as exc:
        raise ValueError(f"pattern{str(exc).removeprefix('--include')}") from exc
    return lambda key: code_of(key, None) is None
