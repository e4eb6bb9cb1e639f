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

from schemas.acl import Scope
from schemas.errors import FormatError, RecordError
from schemas.membership import Member, Membership
from schemas.record import Provenance
from schemas.reject import Place, Reject, record_error, reject_bytes
from schemas.span import Span
from transforms.formats.base import ReadOptions
from transforms.formats.streams import Line, read_lines

MAX_MEMBERS = 3_000_000
"""Members that all groups of a search appliance may have together."""

MAX_LINE_BYTES = 1 << 20
MAX_DATA_BYTES = 1 << 20
"""Most bytes of its rows that the reject of a membership keeps."""

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = " \t\r\n"
_NAME_SEARCH_BYTES = 1 << 16  # less than the csv module takes as a value
_DEFAULT_COLUMNS = ("group", "member", "scope", "namespace")
_REQUIRED = frozenset(_DEFAULT_COLUMNS[:3])
_KNOWN = frozenset((*_DEFAULT_COLUMNS, "case_sensitive"))
_HEADER = "group, member and scope, and namespace and case_sensitive where they are, each once"
_SCOPES = {scope.value.lower(): scope for scope in Scope}
_SENSITIVITIES = {"": None, "true": True, "false": False}

_Key = tuple[str, str | None]


class _CsvRow(NamedTuple):
    """The values of a row and its lines, or why it has no values."""

    values: tuple[str, ...]
    lines: tuple[Line, ...]
    fault: str = ""


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Membership | Reject]:
    """Yield a Reject for each bad row, then for each group its membership or a Reject.

    Raises FormatError for a bad header.
    """
    table = _GroupTable(span)
    for row in _RowReader(stream, span).rows():
        try:
            table.add(row)
        except Exception as exc:
            error = record_error(exc)
            if not table.columns:  # without them no row can be understood
                raise
            table.refuse_groups_of(row)
            text = b"".join(line.text for line in row.lines)
            length = sum(line.length for line in row.lines)
            place = Place(row.lines[0].offset, length, row.lines[0].number)
            yield reject_bytes(error, span=span, place=place, data=text, url=table.group_in(row))
    yield from table.memberships()


class _RowReader:
    """The rows of a stream. If a quote has no end, its line is a row, and the next lines are too.

    A line inside a quoted value is parsed in the same state by every row that reaches it. So a row
    that reaches such a line of a torn row is torn too, and is not parsed further. Without this
    rule, each of many quotes would be followed to the end of the table.
    """

    def __init__(self, stream: IO[bytes], span: Span) -> None:
        self._lines = read_lines(stream, span, max_bytes=MAX_LINE_BYTES)
        self._again: list[Line] = []
        self._taken: list[Line] = []
        self._torn_line, self._torn_fault = 0, ""
        self._csv = csv.reader(self, strict=True)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """Return the next line for the csv module; a byte that is not UTF-8 becomes a surrogate."""
        line = self._again.pop() if self._again else next(self._lines)
        if self._taken and line.number <= self._torn_line:
            self._again.append(line)
            raise csv.Error(self._torn_fault)
        self._taken.append(line)
        return line.text.decode("utf-8", "surrogateescape")

    def rows(self) -> Iterator[_CsvRow]:
        while True:
            self._taken.clear()
            try:
                values = tuple([value.strip(_BLANKS) for value in next(self._csv)])
            except StopIteration:
                return
            except csv.Error as exc:
                yield self._torn_row(str(exc))
                continue
            if any(values) or len(values) > 1:
                yield _CsvRow(values, tuple(self._taken))

    def _torn_row(self, fault: str) -> _CsvRow:
        first, *others = self._taken
        self._again += reversed(others)
        if others:
            self._torn_line, self._torn_fault = others[-1].number, fault
        is_open = fault.startswith("unexpected end")
        found = "a quote without its end" if is_open else fault.partition(" - ")[0]
        return _CsvRow((), (first,), found)


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
        _check(row)
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

    def refuse_groups_of(self, row: _CsvRow) -> None:
        """Refuse every group that a refused row may be about."""
        first = row.lines[0]
        is_whole = len(row.lines) == 1 and first.length == len(first.text) and not row.fault
        if is_whole and len(row.values) in self._widths:
            values = self._named(row.values)
            namespace = values.get("namespace", "")
            if _foreign_byte(namespace) is None:
                self._refused.setdefault((values["group"], namespace or None), first.number)
                return
        at = self.columns.index("group")
        for values_of_line in (row.values, *map(_values_in_damaged_line, row.lines)):
            for name in values_of_line[at : at + 1]:
                self._refused.setdefault(name, first.number)

    def group_in(self, row: _CsvRow) -> str | None:
        """Return the name of the group of a refused row, if it can be read."""
        at = self.columns.index("group")
        name = row.values[at] if at < len(row.values) else ""
        return name if name and _foreign_byte(name) is None else None

    def memberships(self) -> Iterator[Membership | Reject]:
        """Yield a membership for each group, or its reject."""
        for key, rows in self._groups.items():
            lines = [self._refused[name] for name in (key, key[0]) if name in self._refused]
            data = b""
            try:
                if not lines:
                    yield self._membership(key, rows)
                    continue
                data = bytes(rows.text[:MAX_DATA_BYTES])
                reason = (
                    f"the row in line {min(lines)} was refused; expected all rows of the group"
                    f" {key[0]!r}, for without a member it opens what is denied to it: correct that"
                    " row"
                )
                error = RecordError("bad-membership", reason)
            except Exception as exc:
                error = record_error(exc)
            place = Place(rows.first.offset, len(rows.text), rows.first.number)
            yield reject_bytes(error, span=self._span, place=place, data=data, url=key[0])

    def _membership(self, key: _Key, rows: _GroupRows) -> Membership:
        name, namespace = key
        text = io.StringIO(rows.text.decode(), newline="\n")
        members = (
            _member(self._named(tuple([value.strip(_BLANKS) for value in values])))
            for values in csv.reader(text, strict=True)
        )
        return Membership(
            group=Member(name=name, scope=Scope.GROUP, namespace=namespace),
            members=tuple(member for member in members if member is not None),
            provenance=Provenance(
                source=self._span.source,
                span=self._span.ordinal,
                line=rows.first.number,
                offset=rows.first.offset,
            ),
        )

    def _named(self, values: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(self.columns, values, strict=False))

    def _is_header(self, row: _CsvRow) -> bool:
        """Take the columns from the first row; return whether it is a header."""
        line = row.lines[0].number
        if row.lines[0].text.startswith(_UTF16_MARKS):
            found = f"{self._span.source}:{line}: a byte order mark of UTF-16"
            raise FormatError(f"{found}; expected UTF-8: save the table as CSV in UTF-8")
        try:
            _check(row)
        except RecordError as exc:
            where = f"{self._span.source}:{line}"
            raise FormatError(f"{where}: {exc.reason}, for the first row may be a header") from exc
        names = tuple(value.lower() for value in row.values)
        distinct = set(names)
        if distinct >= _REQUIRED or (distinct <= _KNOWN and len(distinct) == len(names)):
            self._check_header(names, line)
            self.columns, self._widths = names, {len(names)}
            return True
        self.columns, self._widths = _DEFAULT_COLUMNS, {len(_REQUIRED), len(_DEFAULT_COLUMNS)}
        return False

    def _check_header(self, names: tuple[str, ...], line: int) -> None:
        faults = [
            f"a column {name!r}" if name not in _KNOWN else f"two columns {name!r}"
            for name in names
            if name not in _KNOWN or names.count(name) > 1
        ]
        faults += [f"no column {name!r}" for name in sorted(_REQUIRED.difference(names))]
        if faults:
            raise FormatError(f"{self._span.source}:{line}: {faults[0]}; expected {_HEADER}")


def _check(row: _CsvRow) -> None:
    """Raise RecordError for a row that is not one line of CSV in UTF-8."""
    if row.fault:
        raise RecordError("bad-csv", f"{row.fault}; expected a row of CSV")
    if row.lines[0].length > len(row.lines[0].text):
        reason = f"a line of {row.lines[0].length} bytes; expected at most {MAX_LINE_BYTES}"
        raise RecordError("line-too-long", reason)
    if len(row.lines) > 1:
        reason = f"a value over {len(row.lines)} lines; expected one: a quote may be torn"
        raise RecordError("line-end-in-value", reason)
    byte = _foreign_byte("".join(row.values))
    if byte is not None:
        reason = f"the byte {byte:#04x}, which is no UTF-8; expected a table in UTF-8"
        raise RecordError("not-utf-8", reason)


def _foreign_byte(text: str) -> int | None:
    """Return the first byte of the text that was not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return ord(text[exc.start]) & 0xFF
    return None


def _values_in_damaged_line(line: Line) -> list[str]:
    """Return the values that a line seems to have, with its quotes as they are."""
    text = line.text[:_NAME_SEARCH_BYTES].replace(b"\r", b" ").decode("utf-8", "surrogateescape")
    return [value.strip(_BLANKS) for row in csv.reader([text]) for value in row]


def _member(values: Mapping[str, str]) -> Member | None:
    """Return the member of a row, None if it only names a group; raise RecordError if it is bad."""
    name, scope = values["member"], values["scope"]
    if not name and not scope:
        return None
    if not name:
        reason = f"scope={scope!r} without a member; expected its name, or neither of both"
        raise RecordError("bad-row", reason)
    if scope.lower() not in _SCOPES:
        raise RecordError("bad-row", f"scope={scope!r} of {name!r}; expected user or group")
    sensitive = values.get("case_sensitive", "")
    if sensitive.lower() not in _SENSITIVITIES:
        reason = f"case_sensitive={sensitive!r} of {name!r}; expected true, false or nothing"
        raise RecordError("bad-row", reason)
    return Member(
        name=name,
        scope=_SCOPES[scope.lower()],
        namespace=values.get("namespace") or None,
        case_sensitive=_SENSITIVITIES[sensitive.lower()],
    )
