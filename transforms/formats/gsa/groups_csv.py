"""Groups and their members from a table: CSV with a row for each member of each group.

The columns are group, member, scope and, if there is one, namespace, in this order; or in any
order below a header that names them, where `case_sensitive` may stand too. Reads only.

**Spec:** RFC 4180, by the csv module of Python in its strict mode; UTF-8.

**Keeps:** members in the order of their rows, duplicates too; groups in that of their first rows.
The rows of a group, its name and namespace, make one membership wherever they stand. The namespace
of a row is that of both group and member. A row with neither member nor scope names a group, which
may be all there is of it.

**Reads beyond the RFC:** a byte order mark, empty lines, white space around values, lines that end
with a line feed only; scope and header in any case.

**Refuses** each row that is not understood: nobody is guessed into a group. A name with a line end
is refused, for its quote may be torn: then it has swallowed the rows behind it. Refuses also the
whole membership of a group that such a row names: a group that lost a member opens documents that
are denied to it. Where the namespace of the row cannot be told, that is the group in any namespace;
where its group cannot be told, no other row is refused for it.

All groups are in memory until the last row is read: about as many bytes as the names take, and
300 for each group. A file with more than 3,000,000 members is refused, for no appliance holds more.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import IO, NamedTuple

import msgspec

from schemas.acl import Scope
from schemas.defect import record_error
from schemas.errors import FormatError, RecordError
from schemas.membership import Member, Membership
from schemas.record import Provenance
from schemas.reject import Place, Reject, reject_bytes
from schemas.span import Span
from transforms.formats.base import ReadOptions

MAX_MEMBERS = 3_000_000
"""Members that all groups of a search appliance may have together."""
MAX_LINE_BYTES = 1 << 20
"""Most bytes of a line that is read."""
MAX_DATA_BYTES = 1 << 20
"""Most bytes of its rows that the reject of a membership keeps."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = " \t\r\n"
_LOOK_BYTES = 1 << 16
"""How far a torn line is searched for its group, below what the csv module takes as a value."""
_USUAL = ("group", "member", "scope", "namespace")
_NEEDED = frozenset(_USUAL[:3])
_KNOWN = frozenset((*_USUAL, "case_sensitive"))
_EXPECTED = "group, member and scope, and namespace and case_sensitive where they are, each once"
_SCOPES = {scope.value.lower(): scope for scope in Scope}
_SENSITIVITIES = {"": None, "true": True, "false": False}
_SENSITIVITY_NAMES = {value: name for name, value in _SENSITIVITIES.items()}
_KINDS = tuple((scope, sensitive) for scope in Scope for sensitive in _SENSITIVITIES.values())
"""What a member can be beside its name: one byte for it is held."""
_FIRST_KIND = ord("a")  # no line end
_KIND_BYTES = {
    (scope, sensitive): _FIRST_KIND + _KINDS.index((_SCOPES[scope], _SENSITIVITIES[sensitive]))
    for scope in _SCOPES
    for sensitive in _SENSITIVITIES
}

_Key = tuple[str, str | None]
_Values = Mapping[str, str]


def read(
    stream: IO[bytes], *, span: Span = Span(), options: ReadOptions = ReadOptions()
) -> Iterator[Membership | Reject]:
    """Yield a Reject for each bad row, then for each group its membership, or a Reject of that.

    Raise FormatError for a bad header.
    """
    groups = _Groups(span)
    for row in _Rows(stream, span).rows():
        try:
            groups.add(row)
        except Exception as exc:
            error = record_error(exc)
            if not groups.is_begun:  # without the columns, no row can be understood
                raise
            groups.spoil(row)
            yield _reject(row, error, span, groups.name_of(row))
    yield from groups.memberships()


def cut(
    stream: IO[bytes], *, source: str, span_bytes: int, options: ReadOptions = ReadOptions()
) -> Iterator[Span]:
    """Yield one span: rows of a group may stand anywhere."""
    yield Span(source=source)


class _Line(NamedTuple):
    """A line, or its first bytes where it is longer than `MAX_LINE_BYTES`."""

    text: bytes
    number: int
    offset: int
    length: int


class _Row(NamedTuple):
    """The values of a row, why there are none, and the lines that it takes."""

    values: tuple[str, ...]
    lines: tuple[_Line, ...]
    fault: str = ""


class _Rows:
    """The rows of a stream; of one that ends nowhere, the first line only is a row.

    A line that continues a quoted value is read in the same state by every row that it continues.
    So no row that reaches such a line of a torn row is read further: it is torn in the same way.
    Without this rule, each of many quotes would be followed to the end of the table.
    """

    def __init__(self, stream: IO[bytes], span: Span) -> None:
        self._lines = _lines(stream, span)
        self._again: list[_Line] = []
        self._taken: list[_Line] = []
        self._torn_line = 0
        self._torn_fault = ""
        self._csv = csv.reader(self, strict=True)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        """The next line as text, for the csv module; a byte that is none becomes a surrogate."""
        line = self._again.pop() if self._again else next(self._lines)
        if self._taken and line.number <= self._torn_line:
            self._again.append(line)
            raise csv.Error(self._torn_fault)
        self._taken.append(line)
        return line.text.decode("utf-8", "surrogateescape")

    def rows(self) -> Iterator[_Row]:
        while True:
            self._taken.clear()
            try:
                values = tuple([value.strip(_BLANKS) for value in next(self._csv)])
            except StopIteration:
                return
            except csv.Error as exc:
                yield self._torn(str(exc))
                continue
            if any(values) or len(values) > 1:
                yield _Row(values, tuple(self._taken))

    def _torn(self, fault: str) -> _Row:
        first, *behind = self._taken
        self._again += reversed(behind)
        if behind:
            self._torn_line, self._torn_fault = behind[-1].number, fault
        found = "a quote without its end" if fault.startswith("unexpected end") else fault
        return _Row((), (first,), found.partition(" - ")[0])


def _lines(stream: IO[bytes], span: Span) -> Iterator[_Line]:
    number, offset = span.line, span.offset
    while text := stream.readline(MAX_LINE_BYTES):
        length = len(text)
        while not text.endswith(b"\n") and (more := stream.readline(MAX_LINE_BYTES)):
            length += len(more)
            if more.endswith(b"\n"):
                break
        if not offset and text.startswith(_WIDE_MARKS):
            found = f"{span.source}:1: a byte order mark of UTF-16"
            raise FormatError(f"{found}; expected UTF-8: save the table as CSV in UTF-8")
        mark = len(_BYTE_ORDER_MARK) if not offset and text.startswith(_BYTE_ORDER_MARK) else 0
        yield _Line(text[mark:], number, offset + mark, length - mark)
        number, offset = number + 1, offset + length


class _Group:
    """The members of a group, as bytes: their kind and their name, end to end.

    `length` is the number of bytes that its rows take in the table.
    """

    __slots__ = ("first", "length", "members")

    def __init__(self, first: _Line) -> None:
        self.first = (first.number, first.offset)
        self.length = 0
        self.members = bytearray()


class _Groups:
    """What rows say of groups, by the order of the groups' first rows."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._columns: tuple[str, ...] = ()
        self._widths: set[int] = set()
        self._groups: dict[_Key, _Group] = {}
        self._spoiled: dict[_Key | str, int] = {}  # a name alone is that of any namespace
        self._members = 0

    @property
    def is_begun(self) -> bool:
        """Whether the columns are known."""
        return bool(self._columns)

    def add(self, row: _Row) -> None:
        """Take one row; raise RecordError for one that is refused."""
        if not self._columns and self._begin(row):
            return
        _check(row)
        if len(row.values) not in self._widths:
            widths = " or ".join(str(width) for width in sorted(self._widths))
            expected = f"{widths}: {','.join(self._columns)}"
            raise RecordError("bad-row", f"{len(row.values)} columns; expected {expected}")
        self._add(self._values(row), row.lines[0])

    def spoil(self, row: _Row) -> None:
        """Let a row that was refused cost the groups that it may be about."""
        for key in self._named(row):
            self._spoiled.setdefault(key, row.lines[0].number)

    def name_of(self, row: _Row) -> str | None:
        """The group that a row is about, where that can be told."""
        at = self._columns.index("group")
        name = row.values[at] if at < len(row.values) else ""
        return name if name and _foreign_byte(name) is None else None

    def memberships(self) -> Iterator[Membership | Reject]:
        """Yield a membership for each group, or its reject."""
        for key, group in self._groups.items():
            try:
                outcome = self._outcome(key, group)
            except Exception as exc:
                outcome = self._reject(key, group, record_error(exc))
            yield outcome

    def _outcome(self, key: _Key, group: _Group) -> Membership | Reject:
        membership = self._membership(key, group)
        lines = [self._spoiled[one] for one in (key, key[0]) if one in self._spoiled]
        return self._refused(membership, group, line=min(lines)) if lines else membership

    def _reject(self, key: _Key, group: _Group, exc: RecordError) -> Reject:
        """The reject of a group, without its rows: they may be anywhere in the table."""
        number, offset = group.first
        place = Place(offset, group.length, number)
        return reject_bytes(exc, span=self._span, place=place, data=b"", url=key[0])

    def _named(self, row: _Row) -> Iterator[_Key | str]:
        named = self._values(row) if _is_whole(row) and len(row.values) in self._widths else {}
        namespace = named.get("namespace", "")
        if named and _foreign_byte(namespace) is None:
            yield named["group"], namespace or None
            return
        at = self._columns.index("group")
        for values in (row.values, *map(_torn_values, row.lines)):
            yield from values[at : at + 1]

    def _begin(self, row: _Row) -> bool:
        """Learn the columns by the first row; return whether it is a header.

        Without it, nobody can tell which column is which.
        """
        try:
            _check(row)
        except RecordError as exc:
            where = f"{self._span.source}:{row.lines[0].number}"
            raise FormatError(f"{where}: {exc.reason}, for the first row may be a header") from exc
        names = tuple(value.lower() for value in row.values)
        if _is_header(names):
            self._check_header(names, row.lines[0].number)
            self._columns, self._widths = names, {len(names)}
            return True
        self._columns, self._widths = _USUAL, {len(_NEEDED), len(_USUAL)}
        return False

    def _check_header(self, names: tuple[str, ...], line: int) -> None:
        for name in names:
            if name not in _KNOWN or names.count(name) > 1:
                found = f"a column {name!r}" if name not in _KNOWN else f"two columns {name!r}"
                raise self._bad_header(line, found)
        if missing := _NEEDED.difference(names):
            raise self._bad_header(line, f"no column {min(missing)!r}")

    def _bad_header(self, line: int, found: str) -> FormatError:
        return FormatError(f"{self._span.source}:{line}: {found}; expected {_EXPECTED}")

    def _values(self, row: _Row) -> _Values:
        return dict(zip(self._columns, row.values, strict=False))

    def _add(self, values: _Values, line: _Line) -> None:
        name = values["group"]
        if not name:
            raise RecordError("bad-row", "no group; expected its name")
        member = _member(values)
        key = (name, values.get("namespace") or None)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group(line)
        group.length += line.length
        group.members += member
        self._members += bool(member)
        if self._members > MAX_MEMBERS:
            raise FormatError(
                f"{self._span.source}:{line.number}: more than {MAX_MEMBERS} members; expected at "
                "most as many as a search appliance holds: split the table by its groups"
            )

    def _membership(self, key: _Key, group: _Group) -> Membership:
        name, namespace = key
        line, offset = group.first
        span = self._span
        return Membership(
            group=Member(name=name, scope=Scope.GROUP, namespace=namespace),
            members=tuple(
                _unpacked(member, namespace) for member in bytes(group.members).split(b"\n")[:-1]
            ),
            provenance=Provenance(source=span.source, span=span.ordinal, line=line, offset=offset),
        )

    def _refused(self, membership: Membership, group: _Group, *, line: int) -> Reject:
        reason = (
            f"the row in line {line} was refused; expected all rows of the group "
            f"{membership.url!r}, for without a member it opens what is denied to it: correct "
            "that row"
        )
        exc = RecordError("bad-membership", reason)
        rows = self._rows(membership)
        kept = rows[: rows.rfind(b"\n", 0, MAX_DATA_BYTES) + 1]
        number, offset = group.first
        place = Place(offset, group.length, number)
        reject = reject_bytes(exc, span=self._span, place=place, data=kept, url=membership.url)
        return msgspec.structs.replace(reject, truncated=len(kept) < len(rows))

    def _rows(self, membership: Membership) -> bytes:
        """The good rows of a group, in the columns of the table."""
        namespace = membership.group.namespace
        row = {"group": membership.group.name, "namespace": namespace or ""}
        width = max(self._widths) if namespace else min(self._widths)
        text = io.StringIO()
        writer = csv.DictWriter(
            text, self._columns[:width], "", extrasaction="ignore", lineterminator="\n"
        )
        writer.writerows(row | _member_values(member) for member in membership.members)
        if not membership.members:
            writer.writerow(row)
        return text.getvalue().encode()


def _is_header(names: tuple[str, ...]) -> bool:
    """Whether it has all names that a header needs, or nothing but names of columns, each once."""
    named = set(names)
    return named >= _NEEDED or (named <= _KNOWN and len(named) == len(names))


def _check(row: _Row) -> None:
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


def _is_whole(row: _Row) -> bool:
    """Whether its values are those of one line, and of all of it."""
    first = row.lines[0]
    return not row.fault and len(row.lines) == 1 and first.length == len(first.text)


def _foreign_byte(text: str) -> int | None:
    """The first byte in it that was no UTF-8."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        return ord(text[exc.start]) & 0xFF
    return None


def _torn_values(line: _Line) -> list[str]:
    """What can be told of the values of a line by itself, its quotes taken as they come."""
    text = line.text[:_LOOK_BYTES].replace(b"\r", b" ").decode("utf-8", "surrogateescape")
    return [value.strip(_BLANKS) for row in csv.reader([text]) for value in row]


def _member(values: _Values) -> bytes:
    """The member of a row, packed; nothing where it names a group only."""
    name, scope = values["member"], values["scope"]
    if not name and not scope:
        return b""
    if not name:
        reason = f"scope={scope!r} without a member; expected its name, or neither of both"
        raise RecordError("bad-row", reason)
    if scope.lower() not in _SCOPES:
        raise RecordError("bad-row", f"scope={scope!r} of {name!r}; expected user or group")
    sensitive = values.get("case_sensitive", "")
    if sensitive.lower() not in _SENSITIVITIES:
        reason = f"case_sensitive={sensitive!r} of {name!r}; expected true, false or nothing"
        raise RecordError("bad-row", reason)
    return b"%c%b\n" % (_KIND_BYTES[scope.lower(), sensitive.lower()], name.encode())


def _unpacked(member: bytes, namespace: str | None) -> Member:
    scope, sensitive = _KINDS[member[0] - _FIRST_KIND]
    name = member[1:].decode()
    return Member(name=name, scope=scope, namespace=namespace, case_sensitive=sensitive)


def _member_values(member: Member) -> dict[str, str]:
    return {
        "member": member.name,
        "scope": member.scope.value.lower(),
        "case_sensitive": _SENSITIVITY_NAMES[member.case_sensitive],
    }


def _reject(row: _Row, exc: RecordError, span: Span, group: str | None) -> Reject:
    text = b"".join(line.text for line in row.lines)
    length = sum(line.length for line in row.lines)
    place = Place(row.lines[0].offset, length, row.lines[0].number)
    return reject_bytes(exc, span=span, place=place, data=text, url=group)
