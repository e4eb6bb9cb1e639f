"""Groups from CSV: what a row says, and what a bad one costs."""

import io
import signal
from collections.abc import Iterator
from functools import partial
from typing import NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.acl import Scope
from schemas.errors import FormatError
from schemas.membership import Member, Membership
from schemas.record import Provenance
from schemas.reject import Reject
from schemas.span import Span
from support.streams import read_both_ways
from transforms.formats.gsa import groups_csv

ROW = b"staff,joe,user\n"
LAST = b"last,ann,user\n"
TABLE = b'staff,joe,user,ad\n"R&D, all",sub,group\n"R&D, all","x ""y""",user\nnobody,,\n'


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """End a test that hangs: by the processor's time, whatever else the machine has to do."""

    def stop(signum: int, frame: object) -> NoReturn:
        raise TimeoutError("the reader hangs")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, 60)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, before)


def read(table: bytes) -> list[Membership | Reject]:
    return read_both_ways(partial(groups_csv.read, span=Span(source="t.csv")), table)


def rows(table: bytes) -> list[str]:
    """Each member as `group/member`, each group without as `group`, each reject as its code."""
    found = []
    for one in read(table):
        if isinstance(one, Reject):
            found.append(one.code)
        else:
            name = one.group.name
            found += [f"{name}/{member.name}" for member in one.members] or [name]
    return found


def rows_if_any(table: bytes) -> list[str]:
    try:
        return rows(table)
    except FormatError:
        return []


def only_membership(table: bytes) -> Membership:
    (found,) = read(table)
    assert isinstance(found, Membership)
    return found


def only_reject(table: bytes) -> Reject:
    (reject,) = rejects(table)
    return reject


def rejects(table: bytes) -> list[Reject]:
    return [one for one in read(table) if isinstance(one, Reject)]


def refused(table: bytes) -> Reject:
    """The one membership that is refused."""
    (reject,) = (one for one in rejects(table) if one.code == "bad-membership")
    return reject


def complaint(table: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        read(table)
    return str(caught.value)


# Groups


def test_a_row_is_a_member_of_a_group() -> None:
    assert only_membership(ROW) == Membership(
        group=Member(name="staff", scope=Scope.GROUP),
        members=(Member(name="joe", scope=Scope.USER),),
        provenance=Provenance(source="t.csv", line=1),
    )


def test_rows_of_a_group_are_gathered_wherever_they_stand() -> None:
    table = b"b,joe,user\na,joe,user\nb,a,group\n"
    assert rows(table) == ["b/joe", "b/a", "a/joe"]


def test_a_membership_stands_where_its_first_row_does() -> None:
    _, found = read(ROW + b"\n" + LAST + LAST)
    assert isinstance(found, Membership)
    assert found.provenance == Provenance(source="t.csv", line=3, offset=16)


def test_a_namespace_is_that_of_group_and_member() -> None:
    found = only_membership(b"staff,joe,user,ad\n")
    assert (found.group.namespace, found.members[0].namespace) == ("ad", "ad")


def test_groups_in_two_namespaces_are_two() -> None:
    found = read(b"staff,joe,user,ad\nstaff,joe,user\n")
    assert [one.group.namespace for one in found if isinstance(one, Membership)] == ["ad", None]


@pytest.mark.parametrize(("stated", "scope"), [("USER", Scope.USER), ("Group", Scope.GROUP)])
def test_a_scope_is_read_in_any_case(stated: str, scope: Scope) -> None:
    assert only_membership(f"staff,joe,{stated}\n".encode()).members[0].scope is scope


def test_a_row_without_member_and_scope_is_a_group() -> None:
    assert only_membership(b"nobody,,\n").members == ()


def test_a_row_that_names_a_group_adds_no_member_to_it() -> None:
    assert rows(b"staff,,\nstaff,joe,user\nstaff,,\n") == ["staff/joe"]


@pytest.mark.parametrize(
    ("stated", "sensitive"), [("", None), ("true", True), ("TRUE", True), ("false", False)]
)
def test_case_sensitivity_is_that_of_the_member(stated: str, sensitive: bool | None) -> None:
    table = f"group,member,scope,case_sensitive\nstaff,joe,user,{stated}\n"
    found = only_membership(table.encode())
    assert (found.group.case_sensitive, found.members[0].case_sensitive) == (None, sensitive)


@settings(deadline=None)
@given(st.permutations(["group", "member", "scope", "namespace"]))
def test_a_header_names_the_columns_in_any_order(names: list[str]) -> None:
    row = {"group": "staff", "member": "joe", "scope": "group", "namespace": "ad"}
    table = ",".join(names) + "\n" + ",".join(row[name] for name in names)
    found = only_membership(table.encode())
    assert (found.group.name, found.members) == (
        "staff",
        (Member(name="joe", scope=Scope.GROUP, namespace="ad"),),
    )


def test_a_group_that_is_called_group_is_no_header() -> None:
    assert rows(b"group,member,group\ngroup,member,user\n") == ["group/member", "group/member"]


def test_names_may_hold_anything_but_line_ends() -> None:
    table = 'group,member,scope\n"a,""b""","c\rd é 😀",user\n'
    assert rows(table.encode()) == ['a,"b"/c\rd é 😀']


def test_an_empty_table_has_no_groups() -> None:
    assert read(b"") == []


# Rejects


@pytest.mark.parametrize(
    ("row", "code", "reason"),
    [
        (b",joe,user", "bad-row", "no group; expected its name"),
        (
            b"staff,,user",
            "bad-row",
            "scope='user' without a member; expected its name, or neither of both",
        ),
        (b"staff,joe,", "bad-row", "scope='' of 'joe'; expected user or group"),
        (b"staff,joe,role", "bad-row", "scope='role' of 'joe'; expected user or group"),
        (b"staff,joe", "bad-row", "2 columns; expected 3 or 4: group,member,scope,namespace"),
        (
            b"staff,joe,user,ad,",
            "bad-row",
            "5 columns; expected 3 or 4: group,member,scope,namespace",
        ),
        (
            b"staff,Zo\xeb,user",
            "not-utf-8",
            "the byte 0xeb, which is no UTF-8; expected a table in UTF-8",
        ),
        (b'staff,"joe"x,user', "bad-csv", "',' expected after '\"'; expected a row of CSV"),
        (b'"staff,joe,user', "bad-csv", "a quote without its end; expected a row of CSV"),
        (
            b"staff,jo\re,user",
            "bad-csv",
            "new-line character seen in unquoted field; expected a row of CSV",
        ),
        (
            b'"staff\nx",joe,user',
            "line-end-in-value",
            "a value over 2 lines; expected one: a quote may be torn",
        ),
        (
            b"staff," + b"x" * 200_000 + b",user",
            "bad-csv",
            "field larger than field limit (131072); expected a row of CSV",
        ),
        (
            b"staff," + b"x," * (1 << 19),
            "line-too-long",
            "a line of 1048583 bytes; expected at most 1048576",
        ),
    ],
)
def test_a_bad_row_is_a_reject(row: bytes, code: str, reason: str) -> None:
    reject = only_reject(LAST + row + b"\n")
    assert (reject.code, reject.reason) == (code, reason)


def test_the_reject_of_a_row_says_where_and_what() -> None:
    assert only_reject(LAST + b"\n" + b"staff,joe,x\r\n" + LAST) == Reject(
        code="bad-row",
        reason="scope='x' of 'joe'; expected user or group",
        stage="read",
        source="t.csv",
        line=3,
        offset=15,
        length=13,
        url="staff",
        data=b"staff,joe,x\r\n",
    )


def test_a_case_sensitivity_that_is_none_is_a_reject() -> None:
    table = b"group,member,scope,case_sensitive\nstaff,joe,user,1\n"
    assert only_reject(table).reason == (
        "case_sensitive='1' of 'joe'; expected true, false or nothing"
    )


def test_a_row_must_be_as_wide_as_its_header() -> None:
    assert only_reject(b"group,member,scope\nstaff,joe,user,ad\n").reason == (
        "4 columns; expected 3: group,member,scope"
    )


def test_a_torn_quote_costs_its_line_only() -> None:
    table = ROW + b'"torn,joe,user\n' + b"staff,eve,user\n" + b'staff,"tom",user\n'
    assert rows(table) == ["bad-csv", "staff/joe", "staff/eve", "staff/tom"]


def test_a_torn_quote_far_from_any_other_costs_its_line_only() -> None:
    assert rows(b"first,,\n" + b'"torn,joe,user\n' + LAST * 20_000) == [
        "bad-csv",
        "first",
        *["last/ann"] * 20_000,
    ]


def test_a_torn_quote_that_fits_another_costs_what_is_between_and_is_seen() -> None:
    table = LAST + b'staff,"a,user\n' + b'staff,b",user\n' + LAST
    assert rows(table) == ["line-end-in-value", "last/ann", "last/ann"]


def test_a_long_line_is_kept_in_part() -> None:
    reject = only_reject(ROW + b"x" * (3 << 20) + b"\n" + LAST)
    assert (len(reject.data), reject.length, reject.truncated) == (1 << 20, (3 << 20) + 1, True)


def test_a_byte_order_mark_is_no_part_of_a_reject() -> None:
    reject = only_reject(b"\xef\xbb\xbfstaff,joe,x\n")
    assert (reject.data, reject.offset) == (b"staff,joe,x\n", 3)


# Groups with bad rows


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (b"staff,,user", "bad-row"),
        (b"staff,eve,role", "bad-row"),
        (b"staff,eve", "bad-row"),
        (b"staff,eve,user,,", "bad-row"),
        (b"staff,Zo\xeb,user", "not-utf-8"),
        (b"staff,eve,user,\xeb", "not-utf-8"),
        (b'staff,"eve"x,user', "bad-csv"),
        (b'staff,"eve,user', "bad-csv"),
        (b"staff,e\rve,user", "bad-csv"),
        (b"staff," + b"x" * 200_000 + b",user", "bad-csv"),
        (b"staff," + b"x," * (1 << 19), "line-too-long"),
        (b'"staff\nx",eve,user', "line-end-in-value"),
        (b'torn,"eve,user\nstaff,tom",user', "line-end-in-value"),
    ],
)
def test_a_bad_row_costs_its_group(row: bytes, code: str) -> None:
    assert rows(ROW + LAST + row + b"\n") == [code, "bad-membership", "last/ann"]


@pytest.mark.parametrize("row", [b",eve,user", b'"staff,eve,user', b"staf\xeb,eve,user"])
def test_a_bad_row_whose_group_cannot_be_told_is_alone(row: bytes) -> None:
    assert rows(ROW + row + b"\n")[1:] == ["staff/joe"]


def test_a_group_that_no_good_row_names_is_not_refused_once_more() -> None:
    assert rows(ROW + b"bad,joe,x\n") == ["bad-row", "staff/joe"]


def test_the_reject_of_a_membership_holds_its_good_rows() -> None:
    table = LAST + b" staff , Joe ,USER\r\nstaff,eve,x\nstaff,,x\n" + b'staff,"a,""b""",group\n'
    assert refused(table) == Reject(
        code="bad-membership",
        reason="the row in line 3 was refused; expected all rows of the group 'staff', "
        "for without a member it opens what is denied to it: correct that row",
        stage="read",
        source="t.csv",
        line=2,
        offset=14,
        length=42,
        url="staff",
        data=b' staff , Joe ,USER\r\nstaff,"a,""b""",group\n',
    )


def test_a_group_in_another_namespace_is_another() -> None:
    table = b"staff,joe,user,ad\nstaff,ann,user\nstaff,eve,x,ad\n"
    assert (refused(table).data, rows(table)[-1]) == (b"staff,joe,user,ad\n", "staff/ann")


@pytest.mark.parametrize("row", [b"staff,eve", b"staff,eve,user,\xeb", b'staff,"eve"x,user'])
def test_a_row_that_does_not_tell_its_namespace_costs_the_group_in_all(row: bytes) -> None:
    table = b"staff,joe,user,ad\nstaff,ann,user\n" + row + b"\n"
    assert rows(table)[1:] == ["bad-membership", "bad-membership"]


def test_the_first_bad_row_is_named_whatever_it_tells() -> None:
    table = ROW + b"staff,eve\nstaff,eve,x\n"
    assert refused(table).reason.startswith("the row in line 2 was refused; ")


def test_good_rows_are_kept_in_the_columns_of_the_table() -> None:
    header = b"case_sensitive,Scope,member,group\n"
    table = header + b"TRUE,USER,joe,staff\n,group,sub,staff\nfalse,user,ann,staff\n,x,eve,staff\n"
    kept = b"TRUE,USER,joe,staff\n,group,sub,staff\nfalse,user,ann,staff\n"
    assert refused(table).data == kept


def test_a_good_row_has_an_empty_namespace_where_there_is_a_column_for_it() -> None:
    table = b"group,namespace,member,scope\nstaff,,joe,user\nstaff,,eve,x\n"
    assert refused(table).data == b"staff,,joe,user\n"


def test_a_group_that_was_only_named_is_kept_as_a_row_that_names_it() -> None:
    assert refused(b"staff,,,ad\nstaff,eve,x,ad\n").data == b"staff,,,ad\n"


def test_as_many_whole_rows_are_kept_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_csv, "MAX_DATA_BYTES", 44)
    reject = refused(ROW * 3 + b"staff,eve,x\n")
    assert (reject.data, reject.length, reject.truncated) == (ROW * 2, 45, True)


def test_a_megabyte_of_good_rows_is_kept() -> None:
    assert groups_csv.MAX_DATA_BYTES == 1_048_576


def test_a_group_whose_bytes_are_no_utf_8_is_named_by_no_reject() -> None:
    assert only_reject(LAST + b"Caf\xe9,joe,user\n").url is None


# What is no table


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            b"group,member,scope,mail\n",
            "t.csv:1: a column 'mail'; expected group, member and scope, "
            "and namespace and case_sensitive where they are, each once",
        ),
        (
            b"\ngroup,scope,member,scope\n",
            "t.csv:2: two columns 'scope'; expected group, member and scope, "
            "and namespace and case_sensitive where they are, each once",
        ),
        (
            b"member,group\n",
            "t.csv:1: no column 'scope'; expected group, member and scope, "
            "and namespace and case_sensitive where they are, each once",
        ),
        (
            b'"group,member,scope\n',
            "t.csv:1: a quote without its end; expected a row of CSV, "
            "for the first row may be a header",
        ),
        (
            b"\xff\xfeg\x00",
            "t.csv:1: a byte order mark of UTF-16; expected UTF-8: save the table as CSV in UTF-8",
        ),
    ],
)
def test_a_table_whose_columns_are_not_known_is_a_format_error(table: bytes, message: str) -> None:
    assert complaint(table) == message


def test_more_members_than_an_appliance_holds_are_a_format_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_csv, "MAX_MEMBERS", 2)
    assert complaint(ROW * 3) == (
        "t.csv:3: more than 2 members; expected at most as many as a search appliance holds: "
        "split the table by its groups"
    )


def test_an_appliance_holds_three_million_members() -> None:
    assert groups_csv.MAX_MEMBERS == 3_000_000


def test_a_group_without_members_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_csv, "MAX_MEMBERS", 1)
    assert rows(b"a,,\nb,,\n" + ROW) == ["a", "b", "staff/joe"]


# Hostile input


@pytest.mark.parametrize("length", range(len(TABLE)))
def test_a_table_torn_at_any_byte_raises_nothing_foreign(length: int) -> None:
    assert len(rows_if_any(TABLE[:length])) <= 4


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_a_table_without_one_of_its_bytes_raises_nothing_foreign(at: int) -> None:
    assert len(rows_if_any(TABLE[:at] + TABLE[at + 1 :])) <= 5


@given(st.binary(max_size=200))
def test_bytes_by_chance_raise_nothing_foreign(table: bytes) -> None:
    assert isinstance(rows_if_any(table), list)


@given(st.binary(max_size=200))
def test_rows_by_chance_can_be_told_of(stretch: bytes) -> None:
    found = [reject.message + (reject.url or "") for reject in rejects(ROW + stretch)]
    assert isinstance("".join(found).encode(), bytes)


@given(st.text(alphabet='",\n\r xÿ', max_size=60))
def test_rows_by_chance_leave_the_first_as_it_was(stretch: str) -> None:
    assert "staff/joe" in rows(ROW + stretch.encode())


@pytest.mark.slow
@pytest.mark.parametrize(
    "stretch", [b'"', b'"\n', b'"a\n', b'"",\n', b",", b'a"b', b"\r", b'"""\n']
)
def test_one_piece_over_and_over_is_no_hang(stretch: bytes) -> None:
    assert rows(ROW + stretch * (300_000 // len(stretch)))[-1] == "staff/joe"


# Spans


def test_a_table_is_one_span() -> None:
    assert list(groups_csv.cut(io.BytesIO(ROW), source="t.csv", span_bytes=1)) == [
        Span(source="t.csv")
    ]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"", "a quote without its end; expected a row of CSV"),
        (b'"x\n', "',' expected after '\"'; expected a row of CSV"),
    ],
)
def test_each_of_many_quotes_that_end_nowhere_costs_its_own_line(tail: bytes, reason: str) -> None:
    torn = b'a",""",\n'
    found = rejects(b"group,member,scope\n" + torn * 3 + tail)
    assert [(one.data, one.reason) for one in found][:3] == [(torn, reason)] * 3
