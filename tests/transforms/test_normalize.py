"""Each rule of normalize, and that they change nothing the second time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.acl import Access, Acl, Principal, Scope
from schemas.record import Action, Content, Meta, Record
from support.strategies import records
from transforms.normalize import normalize

URL = "http://www.example.com/plan.html"


def add(**stated: object) -> Record:
    return Record(**({"url": URL, "action": Action.ADD} | stated))  # type: ignore[arg-type] # mixed


def permit(name: str) -> Principal:
    return Principal(name=name, scope=Scope.GROUP, access=Access.PERMIT)


@given(records())
def test_normalize_twice_is_normalize_once(record: Record) -> None:
    once = normalize(record)

    assert normalize(once) is once


@given(st.text(alphabet=" \t\nAb/;=\u00a0\u0130\u00df", max_size=12))
def test_a_mimetype_settles_at_once(mimetype: str) -> None:
    once = normalize(add(mimetype=mimetype))

    assert normalize(once) is once


def test_a_record_that_needs_nothing_is_returned_as_it_is() -> None:
    record = add(mimetype="text/html", charset="UTF-8", acl=Acl(principals=(permit("staff"),)))

    assert normalize(record) is record


def test_white_space_around_a_url_is_cut_off() -> None:
    assert normalize(add(url=f"\n {URL}\t\r")) == add()


def test_white_space_inside_a_url_is_kept() -> None:
    record = add(url="http://www.example.com/a b")

    assert normalize(record) is record


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param("text/html", "text/html", id="as-it-should-be"),
        pytest.param("Text/HTML", "text/html", id="capitals"),
        pytest.param(" text/html\n", "text/html", id="spaces"),
        pytest.param(
            "Text/HTML; charset=ISO-8859-1", "text/html; charset=ISO-8859-1", id="parameter"
        ),
        pytest.param(" text/html ;a=B ", "text/html;a=B", id="parameter-and-spaces"),
        pytest.param("", None, id="empty"),
        pytest.param("  ", None, id="blank"),
    ],
)
def test_a_mimetype_is_in_small_letters(stated: str, expected: str | None) -> None:
    assert normalize(add(mimetype=stated)).mimetype == expected


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        pytest.param(" Shift_JIS ", "Shift_JIS", id="spaces"),
        pytest.param("utf-8", "utf-8", id="small-letters-stay"),
        pytest.param("", None, id="empty"),
    ],
)
def test_a_charset_has_no_white_space_around_it(stated: str, expected: str | None) -> None:
    assert normalize(add(charset=stated)).charset == expected


def test_principals_are_trimmed() -> None:
    record = add(acl=Acl(principals=(permit(" EXAMPLE\\eng staff\n"), permit("nobles"))))

    assert normalize(record) == add(
        acl=Acl(principals=(permit("EXAMPLE\\eng staff"), permit("nobles")))
    )


def test_empty_principals_are_dropped() -> None:
    record = add(acl=Acl(principals=(permit(""), permit("nobles"), permit(" "))))

    assert normalize(record) == add(acl=Acl(principals=(permit("nobles"),)))


def test_an_acl_of_empty_principals_permits_nobody_rather_than_all() -> None:
    assert normalize(add(acl=Acl(principals=(permit(" "),)))) == add(acl=Acl())


def test_an_acl_keeps_what_else_it_states() -> None:
    acl = Acl(inherit_from="http://www.example.com/", alone=True, principals=(permit(" a"),))

    assert normalize(add(acl=acl)) == add(
        acl=Acl(inherit_from="http://www.example.com/", alone=True, principals=(permit("a"),))
    )


def test_an_acl_inherits_from_a_url_that_is_trimmed_like_its_own() -> None:
    record = add(acl=Acl(inherit_from=" http://www.example.com/ "))

    assert normalize(record) == add(acl=Acl(inherit_from="http://www.example.com/"))


def test_texts_metadata_and_content_are_left_alone() -> None:
    record = add(title=" Plan ", metadata=(Meta(" a ", " b "),), content=Content(b" x "))

    assert normalize(record) is record


@pytest.mark.parametrize("docid", [" a", "b\t", "c\n", " "])
def test_a_doc_id_that_is_no_url_is_all_of_itself(docid: str) -> None:
    record = Record(url=docid, action=Action.ADD, acl=Acl(inherit_from=docid))

    assert normalize(record) is record


@pytest.mark.parametrize("name", ["google:aclgroups", "Google:AclGroups", " google:aclgroups "])
def test_an_acl_in_metadata_becomes_the_acl_of_the_record(name: str) -> None:
    colour = Meta("colour", "red")

    assert normalize(add(metadata=(colour, Meta(name, " staff ")))) == add(
        metadata=(colour,), acl=Acl(principals=(permit("staff"),))
    )


def test_an_acl_in_metadata_beside_another_stays_metadata() -> None:
    record = add(
        metadata=(Meta("google:aclgroups", "staff"),), acl=Acl(principals=(permit("board"),))
    )

    assert normalize(record) is record
