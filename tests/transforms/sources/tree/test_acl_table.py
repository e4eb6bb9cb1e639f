"""Tables of ACLs: a row that is not understood, or missing, permits no user anything."""

import os
from pathlib import Path

import pytest

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.errors import ConfigError, RecordError
from feedferry.transforms.sources.tree.acl.acl_table import AclOfKey, load_acl_table

HEADER = "pattern,access,scope,name\n"
STAFF_ROW = "**,permit,group,staff\n"
COLUMNS = "expected pattern,access,scope,name, and namespace and case_sensitive optional, each once"
STAFF = Principal(name="staff", scope=Scope.GROUP, access=Access.PERMIT)
HR = Principal(name="hr", scope=Scope.GROUP, access=Access.PERMIT)
TIM = Principal(name="tim", scope=Scope.USER, access=Access.DENY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "people.csv"


def load(path: Path, text: str | bytes) -> AclOfKey:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_acl_table(str(path))


def refusal(path: Path, text: str | bytes) -> list[str]:
    """Return the message about a table that cannot be used, without its name."""
    with pytest.raises(ConfigError) as caught:
        load(path, text)
    return [line.removeprefix(f"--acl {path}:") for line in str(caught.value).split("\n")]


def test_a_file_has_the_principals_of_all_rows_that_match_in_their_order(path: Path) -> None:
    rows = f"hr/**,permit,group,hr\n{STAFF_ROW}hr/**,deny,user,tim\n*.pdf,permit,group,staff\n"
    acl_of = load(path, HEADER + rows)
    assert acl_of("hr/pay.pdf") == Acl(principals=(HR, STAFF, TIM))
    assert acl_of("a/hr.pdf") == Acl(principals=(STAFF,))


@pytest.mark.parametrize("rows", ["", "hr/**,permit,group,hr\n"])
def test_a_file_that_no_row_matches_is_not_public(path: Path, rows: str) -> None:
    acl_of = load(path, HEADER + rows)
    with pytest.raises(RecordError) as caught:
        acl_of("a/b.pdf")
    assert (caught.value.code, caught.value.reason) == (
        "no-acl-row",
        "no row of people.csv for 'a/b.pdf'; expected one: the pattern ** is for all files",
    )


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("**", ["a/.hidden/c.pdf", "a.zip/inner.txt"], []),
        ("*.pdf", ["a/b/c.pdf"], ["a.PDF"]),
        (r"re:^a/.*\.pdf$", ["a/b/c.pdf"], ["b/a/c.pdf"]),
        ("hr", ["hr"], ["hr/pay.pdf"]),
    ],
)
def test_a_pattern_is_read_as_after_include(
    path: Path, pattern: str, matching: list[str], other: list[str]
) -> None:
    acl_of = load(path, HEADER + f"nothing,permit,group,hr\n{pattern},permit,group,staff\n")
    assert {acl_of(key) for key in matching} == {Acl(principals=(STAFF,))}
    for key in other:
        with pytest.raises(RecordError, match=r"^no row of "):
            acl_of(key)


def test_a_principal_has_the_namespace_and_the_case_of_its_row(path: Path) -> None:
    text = (
        "name,scope,access,pattern,case_sensitive,namespace\n"
        "Anna,USER,Permit,**,true,corp\n"
        "tim,user,deny,**,False,\n"
    )
    anna, tim = load(path, text)("a.pdf").principals
    assert (anna.name, anna.scope, anna.access) == ("Anna", Scope.USER, Access.PERMIT)
    assert (anna.namespace, anna.case_sensitive) == ("corp", True)
    assert (tim.access, tim.namespace, tim.case_sensitive) == (Access.DENY, None, False)


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbfpattern,access,scope,name\n**,permit,group,staff\n",
        b"pattern,access,scope,name\r\n**,permit,group,staff\r\n",
        b'"pattern","access","scope","name"\n"**","permit","group","staff"',
        b"Pattern , Access,Scope,Name\n ** , permit , group , staff \n",
        b"\n\npattern,access,scope,name\n\n,,,\n**,permit,group,staff\n\n",
    ],
    ids=["byte-order-mark", "crlf", "quotes", "padded", "empty-lines"],
)
def test_a_table_is_read_as_programs_write_it(path: Path, text: bytes) -> None:
    assert load(path, text)("a.pdf") == Acl(principals=(STAFF,))


def test_quoted_values_may_contain_commas_and_quotes(path: Path) -> None:
    acl_of = load(path, HEADER + '"a,b/**",permit,user,"o""neil, p."\n')
    assert acl_of("a,b/c.pdf").principals[0].name == 'o"neil, p.'


def test_all_rows_that_are_not_understood_are_reported_at_once(path: Path) -> None:
    rows = (
        "**,allow,group,staff\n"
        "**,permit,role,staff\n"
        "\n"
        "**,permit,group,\n"
        ",permit,group,staff\n"
        "**,permit,group\n"
        '"a\nb",permit,group,staff\n'
        "re:(,permit,group,staff\n"
        "/,permit,group,staff\n"
    )
    assert refusal(path, HEADER + STAFF_ROW + rows) == [
        "3: access='allow'; expected permit or deny",
        "4: scope='role'; expected user or group",
        "6: no name; expected one",
        "7: no pattern; expected one",
        "8: 3 columns; expected as many as the header has",
        "9: 'a\\nb'; expected a value in one line: a quote may be missing",
        "11: 're:(' (missing ), unterminated subpattern); expected a regular expression after re:",
        "12: '/'; expected a glob such as '*.pdf' or 'archive/'",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"1: the header ''; {COLUMNS}"),
        (STAFF_ROW, f"1: the header '**,permit,group,staff'; {COLUMNS}"),
        ("\npattern,access,scope\n", f"2: the header 'pattern,access,scope'; {COLUMNS}"),
        (
            "pattern,access,scope,name,name\n",
            f"1: the header 'pattern,access,scope,name,name'; {COLUMNS}",
        ),
        (
            "pattern,access,scope,name,case_sensitive\n**,permit,user,tim,no\n",
            "2: case_sensitive='no'; expected nothing or true or false",
        ),
        (f'{HEADER}**,permit,group,"staff\n', "2: unexpected end of data; expected a row of CSV"),
        (
            f'{HEADER}**,permit,group,"staff"x\n',
            "2: ',' expected after '\"'; expected a row of CSV",
        ),
        (b"\xe9lan\n", " byte 0: not UTF-8; expected a table in UTF-8"),
    ],
)
def test_a_table_that_is_not_understood_is_refused(
    path: Path, text: str | bytes, expected: str
) -> None:
    assert refusal(path, text) == [expected]


def test_a_table_that_cannot_be_read_is_refused(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_acl_table(str(path))
    expected = f"--acl {path}: No such file or directory; expected a table that can be read"
    assert str(caught.value) == expected


def test_a_table_is_read_again_only_after_it_has_changed(path: Path) -> None:
    first = load(path, HEADER + STAFF_ROW)
    assert load_acl_table(str(path)) is first
    path.write_text(HEADER + "**,permit,user,staffx\n")
    os.utime(path, ns=(1, 1))
    assert load_acl_table(str(path))("a").principals[0].scope is Scope.USER
