"""Groups where they are taken, and where only documents are."""

import pytest

from schemas.acl import Scope
from schemas.membership import Member, Membership
from schemas.record import Action, Provenance, Record
from schemas.reject import Reject
from transforms.adapt import Target, adapt, adapt_membership

ENG = Membership(
    group=Member(name="eng", scope=Scope.GROUP),
    members=(Member(name="tim", scope=Scope.USER),),
    provenance=Provenance(source="groups.xml", span=1, line=7, offset=99),
)


@pytest.mark.parametrize("name", ["gsa-groups", "avro", "native"])
def test_a_group_stays_as_it_is_for_a_target_that_has_groups(name: str) -> None:
    assert adapt_membership(ENG, Target(format=name)) is ENG


@pytest.mark.parametrize("name", ["gsa-feed", "thunderstone", "lister-stream"])
def test_a_group_is_set_aside_for_any_other(name: str) -> None:
    assert adapt_membership(ENG, Target(format=name)) == Reject(
        code="membership",
        reason=f"a group with 1 member; expected a document, as {name} has no groups;"
        " gsa-groups, avro, native take them",
        stage="adapt",
        source="groups.xml",
        span=1,
        line=7,
        offset=99,
        url="eng",
        action="MEMBERSHIP",
    )


def test_a_document_is_set_aside_for_a_groups_feed() -> None:
    record = Record(url="http://www.example.com/", action=Action.ADD)

    assert adapt(record, Target(format="gsa-groups")) == (
        (
            Reject(
                code="no-membership",
                reason="a document; expected a group with its members, as nothing else is in a"
                " groups feed",
                stage="adapt",
                url="http://www.example.com/",
                action="ADD",
            ),
        ),
        (),
    )
