"""Solr as a process of its own, on loopback, made of Maven artifacts.

It has a core `docs` with a managed schema that has no fields but those of Solr. The artifacts are
downloaded once, into the cache folder of the user: 110 MB. A test is skipped if Java or Maven is
not installed.
"""

import json
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from feedferry import access
from support.ports import kept_port
from support.search_servers import SMALL_HEAP, find_java, install_artifacts

_NODE = Path(__file__).parent / "programs" / "SolrNode.java"
_START_SECONDS, _CALL_SECONDS = 300, 120
_NAME = "solr-9.10.1"
_ARTIFACTS = [("org.apache.solr", "solr-test-framework", "9.10.1", "jar")]
_OTHER_JETTY = ("jetty-server-9*.jar", "javax.servlet-api-3.1.0.jar", "jersey-container-jetty-*")
_SCHEMA = """\
<schema name="default" version="1.6">
  <uniqueKey>id</uniqueKey>
  <field name="id" type="string" stored="true" indexed="true" required="true"/>
  <field name="_version_" type="plong" indexed="false" stored="false" docValues="true"/>
  <fieldType name="string" class="solr.StrField" sortMissingLast="true" docValues="true"/>
  <fieldType name="plong" class="solr.LongPointField" docValues="true"/>
</schema>
"""
_CONFIG = """\
<config>
  <luceneMatchVersion>9.12.0</luceneMatchVersion>
  <schemaFactory class="ManagedIndexSchemaFactory">
    <bool name="mutable">true</bool><str name="managedSchemaResourceName">managed-schema</str>
  </schemaFactory>
  <directoryFactory name="DirectoryFactory" class="solr.NRTCachingDirectoryFactory"/>
  @TOLERANT
  <updateHandler class="solr.DirectUpdateHandler2">
    <updateLog/><autoCommit><maxTime>15000</maxTime><openSearcher>false</openSearcher></autoCommit>
  </updateHandler>
  <requestHandler name="/select" class="solr.SearchHandler"/>
</config>
"""
_TOLERANT = """\
<updateProcessor class="solr.TolerantUpdateProcessorFactory" name="tolerant"/>
"""
_LOGGING = """\
<Configuration status="error"><Appenders><Console name="c"/></Appenders>
  <Loggers><Root level="error"><AppenderRef ref="c"/></Root></Loggers></Configuration>
"""
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class SolrServer:
    """A running server; `collection` is the address of its core `docs`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.collection = f"{url}/solr/docs"

    def call(self, path: str, body: object = None) -> Any:
        """Return the JSON of a reply; raise HTTPError for a status that is an error."""
        data = None if body is None else json.dumps(body).encode()
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.collection + path, data, head)
        with _OPENER.open(request, timeout=_CALL_SECONDS) as reply:
            return json.load(reply)

    def documents(self, *, hard: bool = True) -> dict[str, Any]:
        """Return the stored fields of the documents of all datasources, by URL."""
        if hard:
            self.call("/update?commit=true", {"commit": {}})
        query = urllib.parse.urlencode({"q": "url:*", "rows": 10_000})
        found = self.call(f"/select?{query}")["response"]["docs"]
        return {document["url"]: document for document in found}

    def found_by(self, tokens: Sequence[str]) -> list[str]:
        """Return the URLs that a search with the filter of tokens finds, in order."""
        body = {"query": "*:*", "fields": ["url"], "limit": 10_000, **access.solr_filter(tokens)}
        found = self.call("/select", body)["response"]["docs"]
        return sorted(document["url"] for document in found)

    def clear(self) -> None:
        """Remove all documents."""
        self.call("/update?commit=true", {"delete": {"query": "*:*"}})


@contextmanager
def solr_server(folder: Path, *, is_tolerant: bool = True) -> Iterator[SolrServer]:
    """Run Solr with its data in a folder; skip the test if it cannot be had.

    The server ends when its standard input is closed, also if this process is killed.
    """
    java = find_java(17)
    libraries = install_artifacts(_NAME, _ARTIFACTS, _prepare)
    conf = folder / "home" / "docs" / "conf"
    conf.mkdir(parents=True)
    (folder / "home" / "solr.xml").write_text("<solr/>")
    (conf.parent / "core.properties").write_text("name=docs\n")
    (conf / "managed-schema").write_text(_SCHEMA)
    (conf / "solrconfig.xml").write_text(
        _CONFIG.replace("@TOLERANT", _TOLERANT if is_tolerant else "")
    )
    (folder / "log4j2.xml").write_text(_LOGGING)
    with kept_port() as port, (folder / "log").open("wb") as log:
        command = [java, *SMALL_HEAP, "-Djetty.host=127.0.0.1", "-Dhost=127.0.0.1"]
        command += ["-Dsolr.jetty.host=127.0.0.1", "-Dlog4j2.configurationFile=log4j2.xml"]
        command += ["-cp", f"{libraries}/*", str(_NODE), str(folder / "home"), str(port)]
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        try:
            end = time.monotonic() + _START_SECONDS
            while b"STARTED" not in (folder / "log").read_bytes():
                assert process.poll() is None, (folder / "log").read_text()[-3000:]
                assert time.monotonic() < end, (folder / "log").read_text()[-3000:]
                time.sleep(0.2)
            yield SolrServer(f"http://127.0.0.1:{port}")
        finally:
            process.kill()
            process.communicate()


def _prepare(libraries: Path) -> None:
    """Remove another Jetty than the one of Solr."""
    for pattern in _OTHER_JETTY:
        for path in libraries.glob(pattern):
            path.unlink()
