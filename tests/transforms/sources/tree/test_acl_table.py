"""Tables of ACLs: a row that is not understood, or missing, opens nothing to anybody."""

import os
from pathlib import Path

import pytest

from schemas.acl import Access, Acl, Principal, Scope
from schemas.errors import ConfigError, RecordError
from transforms.sources.tree.acl_table import AclOfKey, load_acl_table

HEADER = "pattern,access,scope,name\n"
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


def trouble(path: Path, text: str | bytes) -> list[str]:
    """What is said of a table that cannot be used, without its name."""
    with pytest.raises(ConfigError) as caught:
        load(path, text)
    return [line.removeprefix(f"--acl {path}:") for line in str(caught.value).split("\n")]


def test_a_file_has_the_principals_of_all_rows_that_match_in_their_order(path: Path) -> None:
    rows = "hr/**,permit,group,hr\n**,permit,group,staff\nhr/**,deny,user,tim\n"

    assert load(path, HEADER + rows)("hr/pay.pdf") == Acl(principals=(HR, STAFF, TIM))


def test_a_file_has_nothing_of_rows_that_do_not_match(path: Path) -> None:
    rows = "hr/**,permit,group,hr\n**,permit,group,staff\n"

    assert load(path, HEADER + rows)("a/hr.pdf") == Acl(principals=(STAFF,))


def test_a_file_that_no_row_matches_is_not_public(path: Path) -> None:
    acl_of = load(path, HEADER + "hr/**,permit,group,hr\n")

    with pytest.raises(RecordError) as caught:
        acl_of("a/b.pdf")
    assert (caught.value.code, caught.value.reason) == (
        "no-acl-row",
        f"no row of {path} for 'a/b.pdf'; expected one: the pattern ** is for all files",
    )


def test_a_table_without_rows_opens_nothing(path: Path) -> None:
    with pytest.raises(RecordError, match=r"^no row of "):
        load(path, HEADER)("a.pdf")


@pytest.mark.parametrize(
    ("pattern", "key"),
    [
        ("**", "a/b/c.pdf"),
        ("*.pdf", "a/b/c.pdf"),
        ("a/*/c.pdf", "a/b/c.pdf"),
        ("a/", "a/b/c.pdf"),
        ("**", "a/.hidden/c.pdf"),
        ("**", "a.zip/inner.txt"),
        (r"re:^a/.*\.pdf$", "a/b/c.pdf"),
    ],
)
def test_a_pattern_is_one_as_of_include(path: Path, pattern: str, key: str) -> None:
    acl_of = load(path, HEADER + f"{pattern},permit,group,staff\n")

    assert acl_of(key) == Acl(principals=(STAFF,))


@pytest.mark.parametrize(
    ("pattern", "key"), [("a/*", "a/b/c.pdf"), ("*.PDF", "a.pdf"), ("hr", "hr/pay.pdf")]
)
def test_a_pattern_takes_no_more_than_it_says(path: Path, pattern: str, key: str) -> None:
    acl_of = load(path, HEADER + f"{pattern},permit,group,staff\n")

    with pytest.raises(RecordError, match=r"^no row of "):
        acl_of(key)


def test_a_principal_that_several_rows_name_is_there_once(path: Path) -> None:
    rows = "**,permit,group,staff\n*.pdf,permit,group,staff\n"

    assert load(path, HEADER + rows)("a.pdf") == Acl(principals=(STAFF,))


def test_a_principal_has_the_namespace_and_the_case_of_its_row(path: Path) -> None:
    text = (
        "name,scope,access,pattern,case_sensitive,namespace\n"
        "Anna,USER,Permit,**,true,corp\n"
        "tim,user,deny,**,False,\n"
    )

    assert load(path, text)("a.pdf") == Acl(
        principals=(
            Principal(
                name="Anna",
                scope=Scope.USER,
                access=Access.PERMIT,
                namespace="corp",
                case_sensitive=True,
            ),
            Principal(
                name="tim",
                scope=Scope.USER,
                access=Access.DENY,
                case_sensitive=False,
            ),
        )
    )


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


def test_quotes_hold_a_comma_and_a_quote(path: Path) -> None:
    acl_of = load(path, HEADER + '"a,b/**",permit,user,"o""neil, p."\n')

    name = acl_of("a,b/c.pdf").principals[0].name
    assert name == 'o"neil, p.'


def test_all_rows_that_are_not_understood_are_told_at_once(path: Path) -> None:
    rows = (
        "**,permit,group,staff\n"
        "**,allow,group,staff\n"
        "**,permit,role,staff\n"
        "\n"
        "**,permit,group,\n"
        ",permit,group,staff\n"
        "**,permit,group\n"
        "**,permit,group,staff,corp\n"
        '"a\nb",permit,group,staff\n'
        "re:(,permit,group,staff\n"
        "/,permit,group,staff\n"
    )

    assert trouble(path, HEADER + rows) == [
        "3: access='allow'; expected permit or deny",
        "4: scope='role'; expected user or group",
        "6: no name; expected one",
        "7: no pattern; expected one",
        "8: 3 columns; expected as many as the header has",
        "9: 5 columns; expected as many as the header has",
        "10: 'a\\nb'; expected a value in one line: a quote may be missing",
        "12: pattern: 're:(' (missing ), unterminated subpattern); expected a "
        "regular expression after re:",
        "13: pattern: '/'; expected a glob such as '*.pdf' or 'archive/'",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", f"1: the header ''; {COLUMNS}"),
        ("**,permit,group,staff\n", f"1: the column '**'; {COLUMNS}"),
        ("\npattern,access,scope\n", f"2: the header 'pattern,access,scope'; {COLUMNS}"),
        ("pattern,access,scope,name,group\n", f"1: the column 'group'; {COLUMNS}"),
        (
            "pattern,access,scope,name,name\n",
            f"1: the header 'pattern,access,scope,name,name'; {COLUMNS}",
        ),
    ],
)
def test_a_header_must_name_the_columns(path: Path, text: str, expected: str) -> None:
    assert trouble(path, text) == [expected]


def test_a_case_that_is_none_is_told(path: Path) -> None:
    text = "pattern,access,scope,name,case_sensitive\n**,permit,user,tim,no\n"

    assert trouble(path, text) == ["2: case_sensitive='no'; expected nothing or true or false"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ('**,permit,group,"staff\n', "2: unexpected end of data; expected a row of CSV"),
        ('**,permit,group,"staff"x\n', "2: ',' expected after '\"'; expected a row of CSV"),
        (
            b"**,permit,group,staff\n**,permit,group,\xe9lan\n",
            "3: the byte 0xe9, which is not UTF-8",
        ),
    ],
)
def test_what_is_no_csv_in_utf_8_is_told(path: Path, rows: str | bytes, expected: str) -> None:
    text = HEADER.encode() + (rows if isinstance(rows, bytes) else rows.encode())
    tail = "; expected a table in UTF-8" if isinstance(rows, bytes) else ""

    assert trouble(path, text) == [expected + tail]


def test_a_table_that_cannot_be_read_is_told(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_acl_table(str(path))

    expected = f"--acl {path}: No such file or directory; expected a table that can be read"
    assert str(caught.value) == expected


def test_a_table_that_has_not_changed_is_read_once(path: Path) -> None:
    first = load(path, HEADER + "**,permit,group,staff\n")

    assert load_acl_table(str(path)) is first


def test_a_table_that_has_changed_is_read_again(path: Path) -> None:
    load(path, HEADER + "**,permit,group,staff\n")
    path.write_text(HEADER + "**,permit,user,staffx\n")
    os.utime(path, ns=(1, 1))

    assert load_acl_table(str(path))("a").principals[0].scope is Scope.USER
