"""A search at a real server finds what the guide lets a user see, and nothing else.

2 million decisions in place of 20,000::

    FEEDFERRY_STORM=full pytest -n0 -m "" tests/search/test_acl_decisions.py
"""

from functools import partial
from pathlib import Path

import pytest

from feedferry.transforms.access.index_fields import search_filter
from support.acl_worlds import World, check_nights, pushed_rejects
from support.search_servers import SearchServer
from support.solr_servers import SolrServer

pytestmark = pytest.mark.slow

SEED = 36


def test_a_search_finds_what_the_guide_permits(server: SearchServer, tmp_path: Path) -> None:
    push = partial(pushed_rejects, tmp_path, to="opensearch", url=f"{server.url}/intranet")
    check_nights(World(SEED), push, lambda tokens: server.ids("intranet", search_filter(tokens)))


def test_a_search_of_solr_finds_what_the_guide_permits(solr: SolrServer, tmp_path: Path) -> None:
    push = partial(pushed_rejects, tmp_path, to="solr", url=solr.collection)
    check_nights(World(SEED), push, solr.found_by)
