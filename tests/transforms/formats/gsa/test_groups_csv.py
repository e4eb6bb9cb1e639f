"""Groups from CSV: what a row states, and what a bad one costs."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Scope
from feedferry.schemas.errors import FormatError
from feedferry.schemas.membership import Member, Membership
from feedferry.schemas.record import Provenance
from feedferry.schemas.reject import KEPT_BYTES, Reject
from feedferry.schemas.span import Span
from feedferry.transforms.formats.gsa import groups_csv
from support.streams import read_both_ways

ROW = b"staff,joe,user\n"
LAST = b"last,ann,user\n"
TWO_SPACES = b"staff,joe,user,ad\nstaff,ann,user\n"
TABLE = b'staff,joe,user,ad\n"R&D, all",sub,group\n"R&D, all","x ""y""",user\nnobody,,\n'
A_ROW, TORN = "expected a row of CSV", "a quote without its end"
BAD_HEADER = (
    "expected group, member and scope, and namespace and case_sensitive where they are, each once"
)


def read(table: bytes) -> list[Membership | Reject]:
    return read_both_ways(partial(groups_csv.read, span=Span(source="t.csv")), table)


def rows(table: bytes) -> list[str]:
    """Each member as `group/member`, each group without as `group`, each reject as its code."""
    result = []
    for item in read(table):
        if isinstance(item, Reject):
            result.append(item.code)
        else:
            name = item.group.name
            result += [f"{name}/{member.name}" for member in item.members] or [name]
    return result


def rows_if_any(table: bytes) -> list[str]:
    try:
        return rows(table)
    except FormatError:
        return []


def only_membership(table: bytes) -> Membership:
    (result,) = read(table)
    assert isinstance(result, Membership)
    return result


def rejects(table: bytes, *, of_groups: bool = False) -> list[Reject]:
    """The rejects of rows, or of groups."""
    results = [reject for reject in read(table) if isinstance(reject, Reject)]
    return [item for item in results if (item.code == "bad-membership") is of_groups]


def refusal(table: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        read(table)
    return str(caught.value)


# Groups


def test_a_row_is_a_member_of_a_group() -> None:
    _, result = read(LAST + b"\n" + b"staff,joe,user,ad\n" * 2)
    joe = Member(name="joe", scope=Scope.USER, namespace="ad")
    assert result == Membership(
        group=Member(name="staff", scope=Scope.GROUP, namespace="ad"),
        members=(joe, joe),
        provenance=Provenance(source="t.csv", line=3, offset=15),
    )


@pytest.mark.parametrize(
    ("stated", "sensitive"), [("", None), ("true", True), ("TRUE", True), ("false", False)]
)
def test_case_sensitivity_is_that_of_the_member(stated: str, sensitive: bool | None) -> None:
    table = f"group,member,scope,case_sensitive\nstaff,joe,user,{stated}\n"
    membership = only_membership(table.encode())
    assert membership.group.case_sensitive is None
    assert membership.members[0].case_sensitive is sensitive


@given(st.permutations(["group", "member", "scope", "namespace"]))
def test_a_header_names_the_columns_in_any_order(names: list[str]) -> None:
    row = {"group": "staff", "member": "joe", "scope": "group", "namespace": "ad"}
    table = ",".join(names) + "\n" + ",".join(row[name] for name in names)
    membership = only_membership(table.encode())
    assert membership.group.name == "staff"
    assert membership.members == (Member(name="joe", scope=Scope.GROUP, namespace="ad"),)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (b"", []),
        (b"b,joe,user\na,joe,user\nb,a,group\n", ["b/joe", "b/a", "a/joe"]),
        (b"staff,joe,user,ad\nstaff,ann,USER\n", ["staff/joe", "staff/ann"]),
        (b"staff,,\n", ["staff"]),
        (ROW + b"staff,,\n", ["staff/joe"]),
        (b"group,joe,user\n", ["group/joe"]),
        (b'"R&D, all","x ""y\xc3\xbc""",user\n', ['R&D, all/x "y\u00fc"']),
        (b"\xef\xbb\xbfstaff , joe,user\r\n\r\n", ["staff/joe"]),
        # A damaged quote costs its line, or the lines up to the next quote.
        (ROW + b'"torn,joe,user\n' + LAST, ["bad-csv", "staff/joe", "last/ann"]),
        (
            LAST + b'staff,"a,user\n' + b'staff,b",user\n' + ROW,
            ["line-end-in-value", "last/ann", "bad-membership"],
        ),
        # If the group of a bad row is unknown, no other row is refused.
        (ROW + b",eve,user\n", ["bad-row", "staff/joe"]),
        (ROW + b"staf\xeb,eve,user\n", ["not-utf-8", "staff/joe"]),
        (ROW + b"bad,joe,x\n", ["bad-row", "staff/joe"]),
        # A group in another namespace is another group.
        (TWO_SPACES + b"staff,eve,x,ad\n", ["bad-row", "bad-membership", "staff/ann"]),
        # If its namespace is unknown, the group is refused in all namespaces.
        *(
            (TWO_SPACES + row + b"\n", [code, "bad-membership", "bad-membership"])
            for row, code in (
                *((b"staff,eve", "bad-row"), (b"staff,eve,user,\xeb", "not-utf-8")),
                (b'staff,"eve"x,user', "bad-csv"),
            )
        ),
        *(
            (ROW + LAST + row + b"\n", [code, "bad-membership", "last/ann"])
            for row, code in (
                *((b"staff,,user", "bad-row"), (b"staff,eve,role", "bad-row")),
                *((b"staff,eve,user,,", "bad-row"), (b"staff,Zo\xeb,user", "not-utf-8")),
                *((b'staff,"eve,user', "bad-csv"), (b"staff,e\rve,user", "bad-csv")),
                (b"staff," + b"x" * 200_000 + b",user", "bad-csv"),
                (b"staff," + b"x," * (1 << 19), "line-too-long"),
                (b'"staff\nx",eve,user', "line-end-in-value"),
                (b'torn,"eve,user\nstaff,tom",user', "line-end-in-value"),
            )
        ),
    ],
    ids=range(27),
)
def test_a_bad_row_costs_its_group_and_no_other(table: bytes, expected: list[str]) -> None:
    assert rows(table) == expected


# Rejects


@pytest.mark.parametrize(
    ("row", "code", "reason"),
    [
        (b",joe,user", "bad-row", "no group; expected its name"),
        (
            *(b"staff,,user", "bad-row"),
            "scope='user' without a member; expected its name, or neither of both",
        ),
        (b"staff,joe,role", "bad-row", "scope='role' of 'joe'; expected user or group"),
        (b"staff,joe", "bad-row", "2 columns; expected 3 or 4: group,member,scope,namespace"),
        (
            *(b"staff,Zo\xeb,", "not-utf-8"),
            "the byte 0xeb, which is no UTF-8; expected a table in UTF-8",
        ),
        (b'staff,"joe"x,user', "bad-csv", f"',' expected after '\"'; {A_ROW}"),
        (b'"staff,joe,user', "bad-csv", f"{TORN}; {A_ROW}"),
        (b"staff,jo\re,user", "bad-csv", f"new-line character seen in unquoted field; {A_ROW}"),
        (
            *(b'"staff\nx",joe,user', "line-end-in-value"),
            "a value over 2 lines; expected one: a quote may be torn",
        ),
        (
            *(b"staff," + b"x," * (1 << 19), "line-too-long"),
            "a line of 1048583 bytes; expected at most 1048576",
        ),
    ],
)
def test_a_bad_row_is_a_reject(row: bytes, code: str, reason: str) -> None:
    (reject,) = rejects(LAST + row + b"\n")
    assert (reject.code, reject.reason) == (code, reason)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"staff,joe,user,yes", "case_sensitive='yes' of 'joe'; expected true, false or nothing"),
        (b"staff,joe,user", "3 columns; expected 4: group,member,scope,case_sensitive"),
    ],
)
def test_a_row_must_fit_its_header(row: bytes, reason: str) -> None:
    (reject,) = rejects(b"group,member,scope,case_sensitive\n" + row + b"\n")
    assert (reject.code, reject.reason) == ("bad-row", reason)


def test_the_reject_of_a_row_has_its_place_and_its_bytes() -> None:
    assert rejects(LAST + b"\n" + b"staff,joe,x\r\n" + LAST) == [
        Reject(
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
    ]
    (reject,) = rejects(b"\xef\xbb\xbfCaf\xc3\xa9,joe,x\n")
    assert (reject.data, reject.offset, reject.url) == (b"Caf\xc3\xa9,joe,x\n", 3, "Caf\u00e9")
    (reject,) = rejects(LAST + b"Caf\xe9,joe,user\n")
    assert (reject.data, reject.url) == (b"Caf\xe9,joe,user\n", None)


def test_the_reject_of_a_membership_has_its_good_rows() -> None:
    table = LAST + b" staff , Joe ,USER\r\nstaff,eve,x\nstaff,,x\n" + b'staff,"a,""b""",group\n'
    assert rejects(table, of_groups=True) == [
        Reject(
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
    ]


def test_the_rows_of_a_large_membership_are_kept_in_part() -> None:
    rows = b"staff," + b"x" * 99_988 + b",user\n"
    (reject,) = rejects(rows * 11 + b"staff,eve,x\n", of_groups=True)
    assert (reject.data, reject.length) == ((rows * 11)[:KEPT_BYTES], 1_100_000)
    assert reject.truncated


@pytest.mark.slow
def test_a_torn_quote_far_from_any_other_costs_its_line_only() -> None:
    results = rows(b"first,,\n" + b'"torn,joe,user\n' + LAST * 20_000)
    assert results == ["bad-csv", "first", *["last/ann"] * 20_000]


@pytest.mark.parametrize(
    ("tail", "reason"), [(b"", f"{TORN}; {A_ROW}"), (b'"x\n', f"',' expected after '\"'; {A_ROW}")]
)
def test_each_of_many_quotes_that_end_nowhere_costs_its_own_line(tail: bytes, reason: str) -> None:
    torn = b'a",""",\n'
    results = rejects(b"group,member,scope\n" + torn * 3 + tail)
    assert [(item.data, item.reason) for item in results][:3] == [(torn, reason)] * 3


# Other tables


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (b"group,member,scope,mail\n", f"1: a column 'mail'; {BAD_HEADER}"),
        (b"\ngroup,scope,member,scope\n", f"2: two columns 'scope'; {BAD_HEADER}"),
        (b"member,group\n", f"1: no column 'scope'; {BAD_HEADER}"),
        (b'"group,member,scope\n', f"1: {TORN}; {A_ROW}, for the first row may be a header"),
        (
            b"\xff\xfeg\x00",
            "1: a byte order mark of UTF-16; expected UTF-8: save the table as CSV in UTF-8",
        ),
    ],
)
def test_a_table_whose_columns_are_not_known_is_a_format_error(table: bytes, problem: str) -> None:
    assert refusal(table) == f"t.csv:{problem}"


def test_more_members_than_an_appliance_holds_are_a_format_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_csv, "MAX_MEMBERS", 1)
    assert rows(b"a,,\nb,,\n" + ROW) == ["a", "b", "staff/joe"]
    assert refusal(ROW * 2) == (
        "t.csv:2: more than 1 members; expected at most as many as a search appliance holds: "
        "split the table by its groups"
    )


def test_a_damaged_table_raises_only_our_errors() -> None:
    for at in range(len(TABLE)):
        assert len(rows_if_any(TABLE[:at])) <= 5
        assert len(rows_if_any(TABLE[:at] + TABLE[at + 1 :])) <= 6


@given(st.binary(max_size=200))
def test_random_rows_raise_only_our_errors_and_can_be_reported(junk: bytes) -> None:
    assert isinstance(rows_if_any(junk), list)
    results = [reject.message + (reject.url or "") for reject in rejects(ROW + junk)]
    assert isinstance("".join(results).encode(), bytes)


@given(st.text(alphabet='",\n\r xÿ', max_size=60))
def test_random_rows_do_not_change_the_first(junk: str) -> None:
    assert "staff/joe" in rows(ROW + junk.encode())
