"""The filter of a search of Solr has the meaning of `permits`, with any fields of a decision."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from feedferry.transforms.access.index_fields import AccessFields, field_names, permits
from feedferry.transforms.access.solr_filter import solr_filter
from support.acl_worlds import HOST
from support.runs import chosen, convert
from support.solr_servers import SolrServer

pytestmark = pytest.mark.slow

SEED = 9
DOCUMENTS = chosen(usual=1_000, full=20_000)
SEARCHES = chosen(usual=60, full=600)
TOKENS = ("*", "us:Default:bob", "ui:Default:acme%5Cbob", "gs:Other:a b", "gs:Default:c@d.e")
EMPTY = "<gsafeed><header><datasource>docs</datasource><feedtype>full</feedtype></header></gsafeed>"


def random_fields(choice: random.Random) -> AccessFields:
    """Return tokens in some fields; the later a field, the more seldom it has some."""
    share = choice.choice((0.2, 0.5, 0.9))
    return {
        name: sorted({choice.choice(TOKENS) for _ in range(choice.randrange(1, 4))})
        for name in field_names()
        if choice.random() < (share if name.endswith("1") else share / 2)
    }


def found(server: SolrServer, tokens: list[str], operator: str) -> set[str]:
    request: dict[str, Any] = solr_filter(tokens)
    params = {**request["params"], "q.op": operator}
    body = {**request, "query": "*:*", "fields": ["url"], "limit": DOCUMENTS, "params": params}
    return {each["url"] for each in server.call("/select", body)["response"]["docs"]}


def make_schema(server: SolrServer, folder: Path) -> None:
    """Push an empty full feed, which makes the fields and deletes all documents."""
    (folder / "empty.xml").write_text(EMPTY)
    words = (str(folder / "empty.xml"), "-o", str(folder / "empty"), "--to", "solr")
    assert convert(*words, "--push-to", server.collection, "--allow-empty-full") == 0


def test_a_search_finds_the_documents_whose_fields_permit_it(
    solr: SolrServer, tmp_path: Path
) -> None:
    make_schema(solr, tmp_path)
    choice = random.Random(SEED)
    fields = {str(number): random_fields(choice) for number in range(DOCUMENTS)}
    withheld = {url for url in fields if choice.random() < 0.1}
    documents = [
        {"id": url, "url": url, **held, **({"acl_withheld": ["*"]} if url in withheld else {})}
        for url, held in fields.items()
    ]
    solr.call("/update?commit=true", documents)
    searches = 0
    for operator in ("AND", "OR"):
        for _ in range(SEARCHES // 2):
            tokens = sorted({"*", *choice.sample(TOKENS, choice.randrange(4))})
            expected = {url for url, held in fields.items() if permits(held, tokens)} - withheld
            assert found(solr, tokens, operator) == expected, tokens
            searches += bool(expected)
    assert searches > SEARCHES // 4


RECORDS = {
    "public": "",
    "staff": '<acl><principal scope="group" access="permit">staff</principal></acl>',
    "denied": '<acl><principal scope="group" access="permit">staff</principal>'
    '<principal scope="user" access="deny">bob</principal></acl>',
    "nobody": '<acl><principal scope="user" access="deny">bob</principal></acl>',
    "chain": f'<acl inherit-from="{HOST}folder"><principal scope="group" access="permit">staff'
    "</principal></acl>",
}
FOLDER = (
    f'<acl url="{HOST}folder" inheritance-type="and-both-permit">'
    '<principal scope="group" access="permit">heads</principal></acl>'
)


def feed(names: Iterator[str] | list[str], acls: dict[str, str] = RECORDS) -> str:
    records = "".join(
        f'<record url="{HOST}{name}" mimetype="text/plain">{acls[name]}<content>x</content>'
        "</record>"
        for name in names
    )
    return (
        "<gsafeed><header><datasource>docs</datasource><feedtype>incremental</feedtype></header>"
        f"<group>{FOLDER}{records}</group></gsafeed>"
    )


def found_by_manifoldcf(server: SolrServer, *tokens: str) -> list[str]:
    """Search as a search component of ManifoldCF does, at the level of documents."""
    listed = ",".join(tokens) or "-"
    allow, deny = "allow_token_document", "deny_token_document"
    opened = f"(+{allow}:__nosecurity__ +{deny}:__nosecurity__)"
    query = f"+({opened} OR {{!terms f={allow} v=$tokens}}) -{{!terms f={deny} v=$tokens}}"
    body = {"query": query, "fields": ["url"], "limit": 100, "params": {"tokens": listed}}
    documents = server.call("/select", body)["response"]["docs"]
    return sorted(str(each.get("url")).removeprefix(HOST) for each in documents)


def test_manifoldcf_finds_what_acls_permit_and_never_by_the_default_of_its_schema(
    solr: SolrServer, tmp_path: Path
) -> None:
    of_schema = {"type": "feedferry_tokens", "default": "__nosecurity__"}
    make_schema(solr, tmp_path)
    for name in ("allow_token_document", "deny_token_document"):
        solr.call("/schema", {"add-field": {"name": name, **of_schema}})
    words = ("--to", "solr", "--set", "target.dialect=manifoldcf", "--push-to", solr.collection)

    def push(night: str, text: str) -> int:
        (tmp_path / f"{night}.xml").write_text(text)
        return convert(str(tmp_path / f"{night}.xml"), "-o", str(tmp_path / night), *words)

    assert push("first", feed(["public", "staff", "denied", "nobody"])) == 0
    staff, bob = "gs:Default:staff", "us:Default:bob"
    assert found_by_manifoldcf(solr) == ["public"]
    assert found_by_manifoldcf(solr, staff) == ["denied", "public", "staff"]
    assert found_by_manifoldcf(solr, staff, bob) == ["public", "staff"]
    # the chain needs two parts: a reject, and the public version of before is hidden
    changed = {**RECORDS, "public": RECORDS["chain"]}
    assert push("second", feed(["public"], changed)) == 1
    assert "public" not in found_by_manifoldcf(solr, staff, "gs:Default:heads")
