"""Groups and their members from a CSV table with a row for each member of each group. Reads only.

The columns are group, member, scope and, if present, namespace, in this order. A header may name
them in any order, and may name `case_sensitive` too.

**Spec:** RFC 4180, as read by Python's csv module in strict mode; UTF-8.

**Keeps:** members in the order of their rows, with duplicates; groups in the order of their first
rows. All rows with the same group and namespace make one membership. The namespace of a row applies
to the group and the member. A row without member and scope names a group, which may have no others.

**Reads beyond the RFC:** a byte order mark, empty lines, white space around values, lines that end
with a line feed only; scope and header in any case.

**Refuses** a row that is not understood: no member is guessed. A value with a line end is refused,
because a damaged quote may have swallowed the rows after it. A refused row also costs the whole
membership of its group: a group that lost a member opens documents to that member. If the namespace
of the row is unknown, it costs the group in every namespace; if its group is unknown, no other row.

**Memory:** all rows, until the last one is read. A table with more than 3,000,000 members is
refused; no appliance holds more.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import IO, NamedTuple

from feedferry.schemas.acl import SCOPES, Scope
from feedferry.schemas.errors import FormatError, RecordError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Provenance
from feedferry.schemas.reject import KEPT_BYTES, Place, Reject, record_error, reject_bytes
from feedferry.schemas.span import Span
from feedferry.transforms.formats.base import ReadOptions
from feedferry.transforms.formats.text.streams import Line, read_lines

MAX_MEMBERS = 3_000_000
"""Members that all groups of a search appliance may have together."""

MAX_LINE_BYTES = 1 << 20
MAX_ROW_LINES = 100

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = " \t\r\n"
_NOT_UTF8 = "not-utf-8"
_OPEN = "unexpected end of data"  # as the csv module says it
_NAME_SEARCH_BYTES = 1 << 16  # less than the csv module takes as a value
_DEFAULT_COLUMNS = ("group", "member", "scope", "namespace")
_REQUIRED = frozenset(_DEFAULT_COLUMNS[:3])
_KNOWN = frozenset((*_DEFAULT_COLUMNS, "case_sensitive"))
_HEADER = "group, member and scope, and namespace and case_sensitive where they are, each once"
_SENSITIVITIES = {"": None, "true": True, "false": False}

_Key = tuple[str, str | None]


class _CsvRow(NamedTuple):
    """The values of a row and its lines; `damage` is why it is not one line of CSV."""

    values: tuple[str, ...]
    lines: tuple[Line, ...]
    damage: RecordError | None


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Membership | Reject]:
    """Yield a Reject for each bad row, then for each group its membership or a Reject.

    Raises FormatError for a bad header.
    """
    table = _GroupTable(span)
    for row in _rows(read_lines(stream, span, max_bytes=MAX_LINE_BYTES)):
        try:
            table.add(row)
        except Exception as exc:
            error = record_error(exc)
            if not table.columns:  # without them no row can be understood
                raise
            yield table.refuse(row, error)
    yield from table.memberships()


def _rows(lines: Iterator[Line]) -> Iterator[_CsvRow]:
    """Yield the rows. If a quote has no end, its line is a row, and the next lines are too.

    A quote is followed for MAX_ROW_LINES: each of many damaged quotes would else be followed to the
    end of the table.
    """
    again: list[Line] = []
    taken: list[Line] = []

    def take() -> str | None:
        """Return the next line for the csv module; a byte that is not UTF-8 becomes a surrogate."""
        line = again.pop() if again else next(lines, None)
        taken.extend(() if line is None else (line,))
        if taken and (line is None or len(taken) > MAX_ROW_LINES):
            raise csv.Error(_OPEN)
        return None if line is None else line.text.decode("utf-8", "surrogateescape")

    reader = csv.reader(iter(take, None), strict=True)
    while True:
        taken.clear()
        try:
            values = _stripped(next(reader))
        except StopIteration:
            return
        except csv.Error as exc:
            first, *others = taken
            again += reversed(others)
            found = str(exc).partition(" - ")[0].replace(_OPEN, "a quote without its end")
            yield _CsvRow((), (first,), RecordError("bad-csv", f"{found}; expected a row of CSV"))
            continue
        if any(values) or len(values) > 1:
            yield _CsvRow(values, tuple(taken), _damage(values, taken))


class _GroupRows(NamedTuple):
    """The first row of a group, and the text of all its rows."""

    first: Line
    text: bytearray


class _GroupTable:
    """The rows of all groups, in the order of the groups' first rows."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self.columns: tuple[str, ...] = ()
        self._widths: set[int] = set()
        self._groups: dict[_Key, _GroupRows] = {}
        self._refused: dict[_Key | str, int] = {}  # a name alone is a group in any namespace
        self._members = 0

    def add(self, row: _CsvRow) -> None:
        """Add a row; raise RecordError for one that is refused."""
        if not self.columns and self._is_header(row):
            return
        if row.damage:
            raise row.damage
        if len(row.values) not in self._widths:
            widths = " or ".join(str(width) for width in sorted(self._widths))
            expected = f"{widths}: {','.join(self.columns)}"
            raise RecordError("bad-row", f"{len(row.values)} columns; expected {expected}")
        values, line = self._named(row.values), row.lines[0]
        if not values["group"]:
            raise RecordError("bad-row", "no group; expected its name")
        self._members += _member(values) is not None
        key = (values["group"], values.get("namespace") or None)
        if key not in self._groups:
            self._groups[key] = _GroupRows(line, bytearray())
        self._groups[key].text.extend(line.text)
        if self._members > MAX_MEMBERS:
            raise FormatError(
                f"{self._span.source}:{line.number}: more than {MAX_MEMBERS} members; expected at "
                "most as many as a search appliance holds: split the table by its groups"
            )

    def refuse(self, row: _CsvRow, error: RecordError) -> Reject:
        """Return the reject of a row, and refuse every group that it may be about."""
        first = row.lines[0]
        for group in self._groups_of(row):
            self._refused.setdefault(group, first.number)
        text = b"".join(line.text for line in row.lines)
        place = Place(first.offset, sum(line.length for line in row.lines), first.number)
        name = "".join(self._name_in(row.values))
        url = name if name and _foreign_byte(name) is None else None
        return reject_bytes(error, span=self._span, place=place, data=text, url=url)

    def memberships(self) -> Iterator[Membership | Reject]:
        """Yield a membership for each group, or its reject."""
        for key, rows in self._groups.items():
            try:
                yield self._membership(key, rows)
            except Exception as exc:
                place = Place(rows.first.offset, len(rows.text), rows.first.number)
                data, error = bytes(rows.text[:KEPT_BYTES]), record_error(exc)
                yield reject_bytes(error, span=self._span, place=place, data=data, url=key[0])

    def _membership(self, key: _Key, rows: _GroupRows) -> Membership:
        name, namespace = key
        if refused := [self._refused[group] for group in (key, name) if group in self._refused]:
            reason = (
                f"the row in line {min(refused)} was refused; expected all rows of the group"
                f" {name!r}, for without a member it opens what is denied to it: correct that row"
            )
            raise RecordError("bad-membership", reason)
        text = io.StringIO(rows.text.decode(), newline="\n")
        members = (
            _member(self._named(_stripped(values))) for values in csv.reader(text, strict=True)
        )
        first, span = rows.first, self._span
        return Membership(
            group=Member(name=name, scope=Scope.GROUP, namespace=namespace),
            members=tuple(member for member in members if member is not None),
            provenance=Provenance(
                source=span.source, span=span.ordinal, line=first.number, offset=first.offset
            ),
        )

    def _named(self, values: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(self.columns, values, strict=False))

    def _name_in(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """Return the name of the group, if there are enough values."""
        at = self.columns.index("group")
        return values[at : at + 1]

    def _groups_of(self, row: _CsvRow) -> Iterator[_Key | str]:
        is_line = not row.damage or row.damage.code == _NOT_UTF8
        if is_line and len(row.values) in self._widths:
            values = self._named(row.values)
            namespace = values.get("namespace", "")
            if _foreign_byte(namespace) is None:
                yield values["group"], namespace or None
                return
        yield from self._name_in(row.values)
        for line in row.lines:
            yield from self._name_in(_values_in_damaged_line(line))

    def _is_header(self, row: _CsvRow) -> bool:
        """Take the columns from the first row; return whether it is a header."""
        where = f"{self._span.source}:{row.lines[0].number}"
        if row.lines[0].text.startswith(_UTF16_MARKS):
            found = "a byte order mark of UTF-16; expected UTF-8: save the table as CSV in UTF-8"
            raise FormatError(f"{where}: {found}")
        if row.damage:
            raise FormatError(f"{where}: {row.damage.reason}, for the first row may be a header")
        names = tuple(value.lower() for value in row.values)
        faults = [
            f"a column {name!r}" if name not in _KNOWN else f"two columns {name!r}"
            for name in names
            if name not in _KNOWN or names.count(name) > 1
        ]
        if faults and not _REQUIRED.issubset(names):
            self.columns, self._widths = _DEFAULT_COLUMNS, {len(_REQUIRED), len(_DEFAULT_COLUMNS)}
            return False
        faults += [f"no column {name!r}" for name in sorted(_REQUIRED.difference(names))]
        if faults:
            raise FormatError(f"{where}: {faults[0]}; expected {_HEADER}")
        self.columns, self._widths = names, {len(names)}
        return True


def _damage(values: tuple[str, ...], lines: list[Line]) -> RecordError | None:
    """Return why a row is not one line of CSV in UTF-8."""
    if lines[0].length > len(lines[0].text):
        reason = f"a line of {lines[0].length} bytes; expected at most {MAX_LINE_BYTES}"
        return RecordError("line-too-long", reason)
    if len(lines) > 1:
        reason = f"a value over {len(lines)} lines; expected one: a quote may be torn"
        return RecordError("line-end-in-value", reason)
    byte = _foreign_byte("".join(values))
    if byte is not None:
        reason = f"the byte {byte:#04x}, which is no UTF-8; expected a table in UTF-8"
        return RecordError(_NOT_UTF8, reason)
    return None


def _stripped(values: list[str]) -> tuple[str, ...]:
    return tuple([value.strip(_BLANKS) for value in values])


def _foreign_byte(text: str) -> int | None:
    """Return the first byte of the text that was not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return ord(text[exc.start]) & 0xFF
    return None


def _values_in_damaged_line(line: Line) -> tuple[str, ...]:
    """Return the values that a line seems to have, with its quotes as they are."""
    text = line.text[:_NAME_SEARCH_BYTES].replace(b"\r", b" ").decode("utf-8", "surrogateescape")
    return _stripped([value for row in csv.reader([text]) for value in row])


def _member(values: Mapping[str, str]) -> Member | None:
    """Return the member of a row, None if it only names a group; raise RecordError if it is bad."""
    name, scope = values["member"], values["scope"]
    if not name and not scope:
        return None
    if not name:
        reason = f"scope={scope!r} without a member; expected its name, or neither of both"
        raise RecordError("bad-row", reason)
    if scope.lower() not in SCOPES:
        raise RecordError("bad-row", f"scope={scope!r} of {name!r}; expected user or group")
    sensitive = values.get("case_sensitive", "")
    if sensitive.lower() not in _SENSITIVITIES:
        reason = f"case_sensitive={sensitive!r} of {name!r}; expected true, false or nothing"
        raise RecordError("bad-row", reason)
    return Member(
        name=name,
        scope=SCOPES[scope.lower()],
        namespace=values.get("namespace") or None,
        case_sensitive=_SENSITIVITIES[sensitive.lower()],
    )
