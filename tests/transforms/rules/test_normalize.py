"""Each rule of normalize, and that they change nothing the second time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedferry.schemas.acl import Access, Acl, Principal, Scope
from feedferry.schemas.record import Action, Content, Meta, Record
from feedferry.testing.strategies import records
from feedferry.transforms.rules.normalize import normalize

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


@pytest.mark.parametrize(
    "record",
    [
        add(mimetype="text/html", charset="UTF-8", acl=Acl(principals=(permit("staff"),))),
        add(url="http://www.example.com/a b"),
        add(title=" Plan ", metadata=(Meta(" a ", " b "),), content=Content(b" x ")),
        add(metadata=(Meta("google:aclgroups", "staff"),), acl=Acl(principals=(permit("board"),))),
        *(add(url=docid, acl=Acl(inherit_from=docid)) for docid in (" a", "b\t", "c\n", " ")),
    ],
)
def test_a_record_that_needs_nothing_is_returned_as_it_is(record: Record) -> None:
    assert normalize(record) is record


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"url": f"\n {URL}\t\r"}, {}),
        ({"mimetype": "Text/HTML"}, {"mimetype": "text/html"}),
        ({"mimetype": " text/html\n"}, {"mimetype": "text/html"}),
        (
            {"mimetype": "Text/HTML; charset=ISO-8859-1"},
            {"mimetype": "text/html; charset=ISO-8859-1"},
        ),
        ({"mimetype": " text/html ;a=B "}, {"mimetype": "text/html;a=B"}),
        ({"mimetype": ""}, {}),
        ({"mimetype": "  "}, {}),
        ({"charset": " Shift_JIS "}, {"charset": "Shift_JIS"}),
        ({"charset": ""}, {}),
        (
            {"acl": Acl(principals=(permit(" EXAMPLE\\eng staff\n"), permit(""), permit(" ")))},
            {"acl": Acl(principals=(permit("EXAMPLE\\eng staff"),))},
        ),
        # It permits no user; it must not look as if there were no ACL.
        ({"acl": Acl(principals=(permit(" "),))}, {"acl": Acl()}),
        (
            {"acl": Acl(inherit_from=f" {URL} ", alone=True, principals=(permit(" a"),))},
            {"acl": Acl(inherit_from=URL, alone=True, principals=(permit("a"),))},
        ),
        *(
            (
                {"metadata": (Meta("colour", "red"), Meta(name, " staff "))},
                {"metadata": (Meta("colour", "red"),), "acl": Acl(principals=(permit("staff"),))},
            )
            for name in ("google:aclgroups", "Google:AclGroups", " google:aclgroups ")
        ),
    ],
)
def test_a_rule_changes_a_record(stated: dict[str, object], expected: dict[str, object]) -> None:
    assert normalize(add(**stated)) == add(**expected)
