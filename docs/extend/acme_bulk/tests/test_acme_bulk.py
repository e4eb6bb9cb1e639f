"""The tests of the package: those of feedferry, from two descriptions."""

import json
from collections.abc import Collection, Sequence

from acme_bulk.bulk_appliance import ACME
from acme_bulk.bulk_format import BULK

from feedferry.testing import (
    ApplianceKit,
    ApplianceTests,
    FormatKit,
    FormatTests,
    ScriptedReply,
    words,
)


def urls_of(body: bytes) -> list[str]:
    actions = [json.loads(line) for line in body.splitlines()]
    return [action["index"]["_id"] for action in actions if "index" in action]


def reply_of(statuses: Sequence[int]) -> ScriptedReply:
    items = [{"index": {"status": status}} for status in statuses]
    return ScriptedReply(body=json.dumps({"items": items}).encode())


def accept(urls: Sequence[str]) -> ScriptedReply:
    return reply_of([201] * len(urls))


def refuse(urls: Sequence[str], refused: Collection[str]) -> ScriptedReply:
    return reply_of([400 if url in refused else 201 for url in urls])


class TestBulkFormat(FormatTests):
    kits = (
        FormatKit(
            format=BULK,
            reads_record="acme_bulk.bulk_format._record",
            words=words(
                '{"index": {"_id": "a"}}\n¦{"delete": {"_id": "a"}}\n¦{"text": "b"}\n¦\n¦{'
            ),
        ),
    )


class TestAcme(ApplianceTests):
    kits = (
        ApplianceKit(
            appliance=ACME,
            format=BULK,
            path="/intranet/_bulk",
            urls_of=urls_of,
            accept=accept,
            refuse=refuse,
            busy=(ScriptedReply(429, headers={"Retry-After": "0"}), reply_of([201, 429, 201, 201])),
            others=lambda _request: ScriptedReply(body=b'{"_shards": {}}'),
        ),
    )
