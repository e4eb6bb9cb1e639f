"""The kind of appliance `discovery-engine`: a data store, which imports the files of a run.

**Spec:** Discovery Engine v1: "documents.import", "operations.get", "dataStores.get". No service of
Google was contacted: the tests have a stand-in that answers as the reference says.
"""

import re
from typing import NoReturn

from feedferry.schemas.check import CheckLine, fail_of, ok
from feedferry.schemas.feed import FULL, INCREMENTAL
from feedferry.transforms.formats import DISCOVERY_ENGINE
from feedferry.transforms.sinks.push.model import ApplianceResponse, ChunkPart
from feedferry.transforms.sinks.push.wire.discovery_engine.data_store_options import (
    DataStoreOptions,
)
from feedferry.transforms.sinks.push.wire.discovery_engine.import_operation import (
    TRUST,
    acl_problem,
    begin,
    check_feeds,
    finish,
    judge,
)
from feedferry.transforms.sinks.push.wire.protocol import (
    Address,
    ApplianceProtocol,
    Endpoint,
    SendContext,
)

_DATA_STORE = re.compile(
    r"/v1/projects/[^/]+/locations/[^/]+(?:/collections/[^/]+)?/dataStores/[^/]+", re.ASCII
)


def _find_url(address: Address) -> str | None:
    scheme, host, port, path = address
    path = path.rstrip("/")
    return f"{scheme}://{host}{port}{path}" if _DATA_STORE.fullmatch(path) else None


def _make_request(part: ChunkPart, _context: SendContext) -> NoReturn:
    raise AssertionError(f"{part.path}: a request with a chunk, which the service fetches itself")


def _judge_probe(response: ApplianceResponse) -> CheckLine:
    problem = acl_problem(response)
    return fail_of("data store", problem) if problem else ok("data store", "with access control")


DATA_STORE = ApplianceProtocol(
    name="discovery-engine",
    endpoints=(
        Endpoint(
            name="import",
            formats=(DISCOVERY_ENGINE.name,),
            source_field="datasource",
            feedtypes=(INCREMENTAL, FULL),
            default_feedtype=INCREMENTAL,
        ),
    ),
    options=DataStoreOptions,
    addresses="https://HOST/v1/projects/P/…/dataStores/D",
    find_url=_find_url,
    acceptance="an operation that is done",
    fix_server="expected Discovery Engine there",
    fix_address="check ⟦url⟧: expected a data store",
    fix_trust=TRUST,
    make_request=_make_request,
    fetches_chunks=True,
    judge=judge,
    judge_probe=_judge_probe,
    check_feeds=check_feeds,
    begin=begin,
    finish=finish,
    no_list=(
        "the service does not show the documents of a data store with access control, and the push"
        " has compared the counts of the import with those of the run"
    ),
)
