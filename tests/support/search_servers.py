"""OpenSearch and Elasticsearch as processes of their own, on loopback, made of Maven artifacts.

The artifacts are downloaded once, into the cache folder of the user: 110 MB for each version. A
test is skipped if Java or Maven is not installed. A server with the Security plug-in takes requests
by TLS, and has one user, `ADMIN`.
"""

import json
import os
import re
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from feedferry.transforms.formats.opensearch.bulk_writer import ACL_SCRIPT
from support.appliance_sockets import certificate
from support.ports import kept_port
from support.programs_needed import path_of, without

_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "feedferry" / "search"
_NODE = Path(__file__).parent / "programs" / "SearchNode.java"
_ACL_SCRIPTS = Path(__file__).parent / "programs" / "AclScripts.java"
_JDKS = Path("/usr/lib/jvm")
_START_SECONDS = 300
_CALL_SECONDS = 120
SMALL_HEAP = ("-Xms512m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOGGING = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = [%-5p][%c{1.}] %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
"""
_SETTINGS = """\
cluster.name: feedferry-test
node.name: n1
network.host: 127.0.0.1
http.port: @HTTP
transport.port: @TRANSPORT
discovery.type: single-node
node.store.allow_mmap: false
cluster.routing.allocation.disk.threshold_enabled: false
"""
_PLAIN = "transport.type: netty4\nhttp.type: netty4\n"
_SECURE = """\
plugins.security.ssl.transport.pemcert_filepath: appliance.pem
plugins.security.ssl.transport.pemkey_filepath: appliance.key
plugins.security.ssl.transport.pemtrustedcas_filepath: appliance.pem
plugins.security.ssl.transport.enforce_hostname_verification: false
plugins.security.ssl.http.enabled: true
plugins.security.ssl.http.pemcert_filepath: appliance.pem
plugins.security.ssl.http.pemkey_filepath: appliance.key
plugins.security.ssl.http.pemtrustedcas_filepath: appliance.pem
plugins.security.allow_default_init_securityindex: true
plugins.security.nodes_dn: ["CN=appliance"]
plugins.security.restapi.roles_enabled: ["all_access"]
"""
ADMIN = "admin:secret"
_USERS = """\
_meta: {type: internalusers, config_version: 2}
admin:
  hash: "$2y$12$tBQRZSsQn/tshEqbpjAWE.zF5tp4yPgr2wipejykKs68vTzQYvYVm"
  reserved: true
  backend_roles: [admin]
"""
_SECURITY_FOLDER = "opensearch-security"
_UNAVAILABLE = 503


class SearchProgram(NamedTuple):
    """A server that can be started: its artifacts, and how it takes plug-ins."""

    name: str
    version: str
    java: int
    package: str
    plugins: Sequence[str]
    plugin_classes: Sequence[str]
    log4j: str
    home: str
    security: str = ""
    """The version of the Security plug-in; empty for a server without it."""
    has_acl_scripts: bool = False
    plugin_type: str = "Class<? extends Plugin>"
    make_plugin: str = "(Class<? extends Plugin>) Class.forName(name)"

    @property
    def flat_kind(self) -> str:
        """The type of a field with any names below it."""
        return "flat_object" if self.name == "opensearch" else "flattened"

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"


_PLUGINS = ("transport-netty4-client", "analysis-common", "reindex-client", "lang-painless")
_CLASSES = (
    "transport.Netty4{}Plugin",
    "analysis.common.CommonAnalysis{}Plugin",
    "index.reindex.Reindex{}Plugin",
    "painless.Painless{}Plugin",
)
OPENSEARCH_2 = SearchProgram(
    name="opensearch",
    version="2.19.6",
    java=17,
    package="org.opensearch",
    plugins=_PLUGINS,
    plugin_classes=[name.format("") for name in _CLASSES],
    log4j="2.25.4",
    home="opensearch.path.home",
)
OPENSEARCH_3 = OPENSEARCH_2._replace(
    version="3.9.0",
    java=21,
    plugin_classes=[name.format("Module") for name in _CLASSES],
    plugin_type="PluginInfo",
    make_plugin=(
        'new PluginInfo(name, "", "NA", org.opensearch.Version.CURRENT, "21", name, null,'
        " Collections.emptyList(), false)"
    ),
)
OPENSEARCH_SECURITY = OPENSEARCH_2._replace(
    version="2.19.1",  # the newest one whose plug-in is published
    plugin_classes=[*OPENSEARCH_2.plugin_classes, "security.OpenSearchSecurityPlugin"],
    log4j="2.21.0",
    security="2.19.1.0",
)
# Painless, the language of scripts, is not published for it.
ELASTICSEARCH_WITHOUT_SCRIPTS = SearchProgram(
    name="elasticsearch",
    version="7.17.29",
    java=17,
    package="org.elasticsearch",
    plugins=["transport-netty4-client"],
    plugin_classes=["transport.Netty4Plugin"],
    log4j="2.17.1",
    home="es.path.home",
)
ELASTICSEARCH_7 = ELASTICSEARCH_WITHOUT_SCRIPTS._replace(has_acl_scripts=True)
"""It does what the scripts of feedferry do, in place of Painless."""


class SearchServer:
    """A running server; requests have the credentials of a user, `name:password`, if given."""

    def __init__(
        self, url: str, program: SearchProgram, *, ca: Path | None = None, user: str = ""
    ) -> None:
        self.url = url
        self.program = program
        self.ca = ca
        self._headers = (
            {"Authorization": f"Basic {b64encode(user.encode()).decode()}"} if user else {}
        )
        tls = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca))
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), tls)

    def as_user(self, user: str) -> "SearchServer":
        """Return the same server for requests of another user."""
        return SearchServer(self.url, self.program, ca=self.ca, user=user)

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the JSON of a reply; raise HTTPError for a status that is an error.

        A body of bytes is one of `_bulk`.
        """
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        headers = {"Content-Type": kind} | self._headers
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with self._opener.open(request, timeout=_CALL_SECONDS) as reply:
            return json.load(reply)

    def ids(self, index: str, query: object, *, size: int = 10_000) -> list[str]:
        """Return the ids of the documents that a search finds."""
        body = {"size": size, "_source": False, "query": query}
        found = self.call("POST", f"/{index}/_search", body)["hits"]["hits"]
        return sorted(hit["_id"] for hit in found)

    def documents(self, index: str) -> dict[str, Any]:
        """Return the fields of all documents, by id."""
        self.call("POST", f"/{index}/_refresh")
        found = self.call("POST", f"/{index}/_search", {"size": 10_000})["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in found}

    def remove(self, name: str) -> None:
        """Remove all indexes whose names begin with a name."""
        for index in self.call("GET", f"/_cat/indices/{name}*?format=json&h=index"):
            self.call("DELETE", f"/{index['index']}")


@contextmanager
def search_server(
    program: SearchProgram, folder: Path, java_options: Sequence[str] = SMALL_HEAP
) -> Iterator[SearchServer]:
    """Run a server with its data in a folder; skip the test if it cannot be had.

    Without `java_options`, it starts soon and has a small heap.

    The server ends when its standard input is closed, also if this process is killed.
    """
    java = find_java(program.java)
    libraries = _install(program)
    source = folder / "SearchNode.java"
    source.write_text(_source(program))
    for name in ("config", "modules", "plugins"):
        (folder / name).mkdir()
    (folder / "config" / "log4j2.properties").write_text(_LOGGING)
    ca = _secure(folder / "config", libraries) if program.security else None
    with kept_port() as port, kept_port() as transport, (folder / "log").open("wb") as log:
        settings = _SETTINGS.replace("@HTTP", str(port)).replace("@TRANSPORT", str(transport))
        settings += _SECURE if program.security else _PLAIN
        (folder / "config" / f"{program.name}.yml").write_text(settings)
        log4j = f"-Dlog4j2.configurationFile={folder / 'config' / 'log4j2.properties'}"
        home = f"-D{program.home}={folder}"
        command = [java, *java_options, "-Dlog4j2.disable.jmx=true", log4j, home, "-cp"]
        command += [f"{libraries}/*", str(source), str(folder)]
        command += [f"{program.package}.{name}" for name in program.plugin_classes]
        command += ["SearchNode$AclScripts"] * program.has_acl_scripts
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=log, stderr=log
        )
        try:
            address = f"{'https' if program.security else 'http'}://127.0.0.1:{port}"
            user = ADMIN if program.security else ""
            server = SearchServer(address, program, ca=ca, user=user)
            _wait(server, process, folder / "log")
            yield server
        finally:
            process.kill()
            process.communicate()


def _wait(server: SearchServer, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while b"STARTED" not in log.read_bytes():
        assert process.poll() is None, log.read_text()[-3000:]
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)
    while True:
        try:
            server.call("GET", "/_cluster/health?wait_for_status=yellow&timeout=60s")
            return
        except urllib.error.HTTPError as exc:  # the plug-in makes its index after the start
            exc.close()
            if exc.code != _UNAVAILABLE:
                raise
        assert time.monotonic() < end, log.read_text()[-3000:]
        time.sleep(0.2)


def _secure(config: Path, libraries: Path) -> Path:
    """Write the certificate and the users of the Security plug-in; return the certificate."""
    pem, _ = certificate(config)
    folder = shutil.copytree(libraries / _SECURITY_FOLDER, config / _SECURITY_FOLDER)
    (Path(folder) / "internal_users.yml").write_text(_USERS)
    return pem


def _source(program: SearchProgram) -> str:
    scripts = _ACL_SCRIPTS.read_text() if program.has_acl_scripts else ""
    text = _NODE.read_text().replace("@ACL_SCRIPTS\n", scripts)
    text = text.replace("@ACL_SCRIPT", ACL_SCRIPT)
    text = text.replace("@PACKAGE", program.package).replace("@PLUGIN", program.plugin_type)
    return text.replace("@MAKE_PLUGIN", program.make_plugin)


@cache
def find_java(version: int) -> str:
    """Return the path of a Java compiler and runtime of a version or later."""
    homes = [Path(os.environ["JAVA_HOME"])] if "JAVA_HOME" in os.environ else []
    homes += sorted(_JDKS.glob("*"))
    paths = [str(home / "bin" / "java") for home in homes if (home / "bin" / "javac").exists()]
    for path in filter(None, [shutil.which("java"), *paths]):
        written = subprocess.run([path, "-version"], capture_output=True, check=False).stderr
        found = re.search(rb'version "(\d+)', written)
        if found and int(found[1]) >= version:
            return path
    pytest.skip(without(f"Java {version}"))


def _install(program: SearchProgram) -> Path:
    """Return the folder with the artifacts of a server; download them if it is not there."""
    prepare = _unpack if program.security else None
    return install_artifacts(f"{program.name}-{program.version}", _artifacts(program), prepare)


def install_artifacts(
    name: str,
    artifacts: Sequence[tuple[str, str, str, str]],
    prepare: Callable[[Path], None] | None = None,
) -> Path:
    """Return a folder of the cache with artifacts: the group, name, version and type of each.

    `prepare` changes the folder before others use it. Skip the test if the artifacts cannot be
    downloaded.
    """
    libraries = _CACHE / name
    if libraries.exists():
        return libraries
    maven = path_of("mvn")
    _CACHE.mkdir(parents=True, exist_ok=True)
    loading = _CACHE / f"{name}.{os.getpid()}"
    loading.mkdir()
    (loading / "pom.xml").write_text(_pom(artifacts))
    goal = ["-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={loading / 'lib'}"]
    done = subprocess.run(
        [maven, *goal], cwd=loading, capture_output=True, check=False, text=True, timeout=580
    )
    if done.returncode:
        shutil.rmtree(loading)
        pytest.skip(f"{name} cannot be downloaded")
    if prepare is not None:
        prepare(loading / "lib")
    if not libraries.exists():  # another worker may have been faster
        (loading / "lib").rename(libraries)
    shutil.rmtree(loading)
    return libraries


def _unpack(libraries: Path) -> None:
    """Unpack the Security plug-in: the artifacts that are not there yet, and its configuration."""
    (path,) = libraries.glob("opensearch-security-*.zip")
    held = {name.stem.rpartition("-")[0] for name in libraries.glob("*.jar")}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith(".jar"):
                artifact = Path(name).stem.rpartition("-")[0]
                if artifact not in held and artifact != "log4j-slf4j-impl":
                    archive.extract(name, libraries)
            elif name.startswith("config/") and name.endswith(".yml"):
                archive.extract(name, libraries)
    (libraries / "config").rename(libraries / _SECURITY_FOLDER)
    path.unlink()


def _artifacts(program: SearchProgram) -> list[tuple[str, str, str, str]]:
    wanted = [(program.package, program.name, program.version, "jar")]
    plugin = f"{program.package}.plugin"
    wanted += [(plugin, name, program.version, "jar") for name in program.plugins]
    # It is optional for the server, which does not start without it.
    wanted.append(("org.apache.logging.log4j", "log4j-core", program.log4j, "jar"))
    if program.security:
        wanted.append((plugin, "opensearch-security", program.security, "zip"))
    return wanted


def _pom(artifacts: Sequence[tuple[str, str, str, str]]) -> str:
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><type>{kind}</type></dependency>"
        for group, artifact, version, kind in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>feedferry</groupId><artifactId>search</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )
