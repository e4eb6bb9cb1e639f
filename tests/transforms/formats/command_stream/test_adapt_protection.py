"""Protection of a document on its way into command streams and dataloads."""

import pytest

from schemas.acl import Access, Acl, Principal, Scope
from schemas.loss import Loss
from schemas.record import Action, Arrival, Authmethod, Content, Crawl, Extra, Meta, Record
from transforms.adapt import Target, adapt

URL = "http://www.example.com/plan.html"
LISTER = Target(format="lister-stream")
RETRIEVER = Target(format="retriever-stream")
THUNDERSTONE = Target(format="thunderstone")
WEB = Target(format="gsa-feed", datasource="web", feedtype="incremental")
JOE = Acl(principals=(Principal(name="joe", scope=Scope.USER, access=Access.PERMIT),))
LEFT = (Meta("google:aclinheritancetype", "sideways"),)


def document(**stated: object) -> Record:
    fields = {
        "url": URL,
        "action": Action.ADD,
        "arrival": Arrival.PUSHED,
        "content": Content(b"<p>Plan</p>"),
        "mimetype": "text/html",
    }
    return Record(**(fields | stated))  # type: ignore[arg-type] # of many types


def acl_losses(record: Record, target: Target) -> list[str]:
    losses: tuple[Loss, ...] = adapt(record, target)[1]
    return [loss.detail for loss in losses if loss.field == "acl"]


@pytest.mark.parametrize(
    ("crawl", "detail"),
    [
        (Crawl(authmethod=Authmethod.NEGOTIATE), "none, but the authmethod NEGOTIATE"),
        (Crawl(secure=True), "none, but the document is secure"),
    ],
)
@pytest.mark.parametrize("content", [None, Content(b"Plan")])
def test_a_listing_loses_the_protection_of_a_document_without_an_acl(
    crawl: Crawl, detail: str, content: Content | None
) -> None:
    assert acl_losses(document(crawl=crawl, content=content), LISTER) == [detail]


@pytest.mark.parametrize("secure", [None, False, True])
def test_a_document_with_an_authmethod_stays_secure_for_a_retriever(secure: bool | None) -> None:
    record = document(crawl=Crawl(secure=secure, authmethod=Authmethod.NTLM))

    assert adapt(record, RETRIEVER) == (
        (document(crawl=Crawl(secure=True)),),
        (Loss(field="authmethod", url=URL, detail="NTLM"),),
    )


@pytest.mark.parametrize("place", ["record/@authmethod", "record/@AuthMethod", "group/@authmethod"])
@pytest.mark.parametrize("target", [LISTER, RETRIEVER, THUNDERSTONE])
def test_an_authmethod_that_is_not_understood_is_a_loss_of_acl(target: Target, place: str) -> None:
    record = document(extras=(Extra(place, "kerberos"),))

    assert acl_losses(record, target) == ["none, but an unknown authmethod 'kerberos'"]


@pytest.mark.parametrize("target", [LISTER, THUNDERSTONE])
def test_metadata_of_an_acl_that_is_not_understood_is_a_loss_of_acl(target: Target) -> None:
    assert acl_losses(document(metadata=LEFT), target) == ["metadata 'google:aclinheritancetype'"]


def test_metadata_of_an_acl_is_a_loss_of_acl_in_a_web_feed() -> None:
    record = document(metadata=(*LEFT, Meta("colour", "red")), content=None)

    assert adapt(record, WEB)[1] == (
        Loss(field="acl", url=URL, detail="'google:aclinheritancetype': a web feed has none"),
        Loss(field="metadata", url=URL, detail="'colour': a web feed has none"),
    )


def test_a_denial_in_bytes_is_a_loss_of_acl_for_a_retriever() -> None:
    record = document(acl=JOE, metadata=(Meta("google:acldenyusers", "", b"\xff"),))

    assert acl_losses(record, RETRIEVER) == ["'google:acldenyusers', 1 byte that are no text"]
