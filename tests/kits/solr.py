"""The kit of commands for Solr."""

import json

from feedferry.testing.protection import Protection
from feedferry.transforms.formats.solr.solr_format import SOLR, SolrOptions
from feedferry.transforms.rules.adapt import Target
from kits.base import Kit, words
from kits.opensearch import protection_of_fields


def _protection_of(text: bytes) -> Protection:
    """Return what protects the one document of a body: its own ACL, as chains are not resolved."""
    *_, last = map(json.loads, text.splitlines())
    if "delete" in last:
        return Protection()
    document = last["add"]["doc"]
    if "_version_" in document:
        stated = (item for item in document.items() if isinstance(item[1], dict))
        document = {name: value["set"] for name, value in stated if value["set"]}
    return protection_of_fields(document)


SOLR_KIT = Kit(
    format=SOLR,
    reads_record="feedferry.transforms.formats.solr.command_reader._record",
    words=words(
        '{"add":{"doc":{"id":"docs http://h.x/1"}}}\n¦{"delete":{"id":"docs http://h.x/1"}}\n¦'
        '{"delete":{"query":"*:*"}}\n¦{"add":{"doc":{"id":"docs http://h.x/1","body":"b"}}}\n¦{"add":'
        '{"doc":{"_version_":1,"id":"docs http://h.x/1","acl_1_permit_1":{"set":["*"]}}}}\n¦\n¦{'
    ),
    protection_of=_protection_of,
    rare_losses=frozenset({"charset"}),
    targets=(
        Target(format="solr"),
        Target(format="solr", own=(SolrOptions(fields=(("A", "own"),)),)),
    ),
)
