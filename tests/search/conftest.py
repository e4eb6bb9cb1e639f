"""The servers of the tests in this folder: each is started once for a session."""

from collections.abc import Iterator

import pytest

from support.search_servers import (
    ELASTICSEARCH_7,
    OPENSEARCH_2,
    OPENSEARCH_3,
    SearchProgram,
    SearchServer,
    search_server,
)
from support.solr_servers import SolrServer, solr_server


@pytest.fixture(
    scope="session",
    params=[OPENSEARCH_2, OPENSEARCH_3, ELASTICSEARCH_7],
    ids=lambda program: program.title,
)
def _server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SearchServer]:
    program: SearchProgram = request.param
    with search_server(program, tmp_path_factory.mktemp(program.name)) as server:
        yield server


@pytest.fixture
def server(_server: SearchServer) -> Iterator[SearchServer]:
    """A server without indexes."""
    yield _server
    _server.remove("")


@pytest.fixture(scope="session")
def _solr(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SolrServer]:
    with solr_server(tmp_path_factory.mktemp("solr")) as server:
        yield server


@pytest.fixture
def solr(_solr: SolrServer) -> Iterator[SolrServer]:
    """Solr without documents."""
    yield _solr
    _solr.clear()
