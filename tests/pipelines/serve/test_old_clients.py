"""Requests of the clients that exist, byte by byte, and what a receiver makes of them.

Hosts, names and contents are made up; what else stands in the requests is what these programs send.
"""

import gzip
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from support.receivers import deliveries, kept, receiving
from support.talk import Talk, say

pytestmark = pytest.mark.slow

WEB_FEED = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
    b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    b"<gsafeed><!--GSA EasyConnector--><header><datasource>adaptor</datasource>"
    b"<feedtype>metadata-and-url</feedtype></header><group>"
    b'<record mimetype="text/plain" url="http://adaptor:5678/doc/1"/></group></gsafeed>\n'
)
CONTENT_FEED = (
    b"<?xml version='1.0' encoding='UTF-8'?>"
    b'<!DOCTYPE gsafeed PUBLIC "-//Google//DTD GSA Feeds//EN" "gsafeed.dtd"><gsafeed>\n'
    b"<header>\n<datasource>files</datasource>\n<feedtype>incremental</feedtype>\n</header>\n"
    b'<group>\n<record url="googleconnector://files.localhost/doc?docid=1" mimetype="text/html" '
    b'authmethod="httpbasic">\n<content encoding="base64binary">PGI+MTwvYj4=</content>\n'
    b"</record>\n</group>\n</gsafeed>\n"
)
SMALL_FEED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE gsafeed SYSTEM "gsafeed.dtd">\n'
    b"<gsafeed><header><datasource>sample</datasource><feedtype>full</feedtype></header>"
    b'<group><record url="http://h/1" mimetype="text/plain"><content>1+1=2</content></record>'
    b"</group></gsafeed>\n"
)
GROUPS_FEED = (
    b'<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n'
    b'<!DOCTYPE xmlgroups PUBLIC "-//Google//DTD GSA Feeds//EN" "">\n'
    b'<xmlgroups><membership><principal namespace="Default" scope="GROUP">staff</principal>'
    b'<members><principal case-sensitivity-type="EVERYTHING_CASE_SENSITIVE" namespace="Default" '
    b'scope="USER">tim</principal></members></membership></xmlgroups>\n'
)
DATA = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<ThunderstoneReplication '
    b'xmlns:dt="urn:schemas-microsoft-com:datatypes">\n<Item>\n<Type>I</Type>\n'
    b"<Url>http://www.example.com/a?b=1&amp;c=2</Url>\n"
    b'<RawData dt:dt="bin.base64">PGI+MTwvYj4/</RawData>\n</Item>\n</ThunderstoneReplication>\n'
)
PLAIN, XML = "Content-Type: text/plain", "Content-Type: text/xml"
JAVA = "User-Agent: Java/1.8.0_292"
JAVA_ACCEPT = "Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"
JAVA_END = ("Host: gsa.example.com:19900", JAVA_ACCEPT, "Connection: keep-alive")
JAVA_FORM = "Content-Type: multipart/form-data; boundary=<<"
PYTHON = "----------boundary_of_feed_data$"
PYTHON_FORM = f"Content-Type: multipart/form-data; boundary={PYTHON}"
WEBKIT = "----WebKitFormBoundaryRx9ZkYbQ2hVnTfWd"
CURL = "------------------------1bb4f3d0a7c96f0e"


def head(line: str, *headers: str, body: bytes = b"") -> bytes:
    """Return a head; the length of the body is added to a header of that name."""
    length = f": {len(body)}"
    lines = [name + length if name.lower() == "content-length" else name for name in headers]
    return "\r\n".join([line, *lines, "", ""]).encode()


def request(line: str, *headers: str, body: bytes) -> bytes:
    return head(line, *headers, body=body) + body


def part(name: str, value: str | bytes, *headers: str, filename: str = "") -> bytes:
    """Return a part of a form, without the boundary before it."""
    named = f'; filename="{filename}"' if filename else ""
    lines = (f'Content-Disposition: form-data; name="{name}"{named}', *headers, "", "")
    return "\r\n".join(lines).encode() + (value if isinstance(value, bytes) else value.encode())


def multipart(boundary: str, *parts: bytes) -> bytes:
    line = f"--{boundary}".encode()
    return b"".join(line + b"\r\n" + each + b"\r\n" for each in parts) + line + b"--\r\n"


def java(path: str, *parts: bytes, agent: str = JAVA) -> bytes:
    """Return a request of the libraries in Java, which all have the boundary `<<`."""
    body = multipart("<<", *parts)
    headers = (JAVA_FORM, agent, *JAVA_END, "Content-Length")
    return request(f"POST {path} HTTP/1.1", *headers, body=body)


def python(path: str, *parts: bytes) -> bytes:
    """Return a request of the clients of the guide, in Python 2."""
    headers = (
        *("Accept-Encoding: identity", "Content-Length", "Host: gsa.example.com:19900"),
        *(PYTHON_FORM, "Connection: close", "User-Agent: Python-urllib/2.7"),
    )
    return request(f"POST {path} HTTP/1.1", *headers, body=multipart(PYTHON, *parts))


URL_FEED = (
    part("datasource", "adaptor", PLAIN),
    part("feedtype", "metadata-and-url", PLAIN),
    part("data", WEB_FEED, XML),
)
FULL, SAMPLE = part("feedtype", "full"), part("datasource", "sample")
SQUEEZED = gzip.compress(multipart("<<", *URL_FEED), mtime=0)

ADAPTOR_LIBRARY = java("/xmlfeed", *URL_FEED)
ADAPTOR_LIBRARY_GZIP = head(
    *("POST /xmlfeed HTTP/1.1", "Content-Encoding: gzip", JAVA_FORM, JAVA, *JAVA_END),
    "Transfer-Encoding: chunked",
) + b"a\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (SQUEEZED[:10], len(SQUEEZED[10:]), SQUEEZED[10:])
ADAPTOR_LIBRARY_GROUPS = java(
    "/xmlgroups",
    part("groupsource", "adaptor", PLAIN),
    part("feedtype", "incremental", PLAIN),
    part("data", GROUPS_FEED, XML),
)
CLEANUP = java("/xmlgroups", part("cleanup", "adaptor", PLAIN))
REPLACE = java("/xmlgroups", part("replace", "adaptor", PLAIN), part("data", GROUPS_FEED, XML))
CONNECTOR_MANAGER = java(
    "/xmlfeed",
    part("datasource", "files", PLAIN),
    part("feedtype", "incremental", PLAIN),
    part("data", CONTENT_FEED, XML),
    agent="User-Agent: Java/1.7.0_80",
)
ADMIN_TOOLKIT = python("/xmlfeed", FULL, SAMPLE, part("data", SMALL_FEED))
PUSHFEED_CLIENT = python(
    "/xmlfeed", FULL, SAMPLE, part("data", SMALL_FEED, XML, filename="/feeds/../sample.xml")
)
PUSHFEED_CLIENT_3 = request(
    *("POST /xmlfeed HTTP/1.1", "Accept-Encoding: identity", PYTHON_FORM, "Content-Length"),
    *("Host: gsa.example.com:19900", "User-Agent: Python-urllib/3.4", "Connection: close"),
    body=multipart(
        PYTHON,
        *(SAMPLE, FULL),
        part("data", SMALL_FEED, "Content-Type: application/xml", filename="sample.xml"),
    ),
)
PUSHGROUPS_CLIENT = python(
    "/xmlgroups",
    part("groupsource", "others"),
    part("data", GROUPS_FEED, XML, filename="groups_feed.xml"),
)
WEB_FORM = request(
    *("POST /xmlfeed HTTP/1.1", "Host: gsa.example.com:19900", "Connection: keep-alive"),
    *("Content-Length", "Cache-Control: max-age=0", "Upgrade-Insecure-Requests: 1"),
    "Origin: http://forms.example.com",
    f"Content-Type: multipart/form-data; boundary={WEBKIT}",
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    *("Referer: http://forms.example.com/", "Accept-Encoding: gzip, deflate"),
    "Accept-Language: en-US,en;q=0.9",
    body=multipart(WEBKIT, SAMPLE, FULL, part("data", SMALL_FEED, XML, filename="ü%22.xml")),
)
PAIRS = (
    b"data=%3C%3Fxml+version%3D%221.0%22+encoding%3D%22UTF-8%22"
    b"%3F%3E%0A%3C%21DOCTYPE+gsafeed+SYSTEM+%22gsafeed.dtd%22%3E%0A%3Cgsafeed%3E%3Cheader%3E"
    b"%3Cdatasource%3Esample%3C%2Fdatasource%3E%3Cfeedtype%3Efull%3C%2Ffeedtype%3E%3C%2Fheader%3E"
    b"%3Cgroup%3E%3Crecord+url%3D%22http%3A%2F%2Fh%2F1%22+mimetype%3D%22text%2Fplain%22%3E"
    b"%3Ccontent%3E1%2B1%3D2%3C%2Fcontent%3E%3C%2Frecord%3E%3C%2Fgroup%3E%3C%2Fgsafeed%3E%0A"
)
GUIDE_EXAMPLE = (
    b"POST /xmlfeed HTTP/1.0\r\n"
    b"Content-type: multipart/form-data\r\n"
    b"Content-length: 436\r\n"
    b"Host: myserver.domain.com:19900\r\n"
    b"User-agent: Python-urllib/1.15\r\n"
    b"\r\n"
    b"feedtype=full&datasource=sample&" + PAIRS
)
OLD_CONNECTOR_MANAGER = request(
    *("POST /xmlfeed HTTP/1.1", "Content-Type: application/x-www-form-urlencoded"),
    *("User-Agent: Java/1.5.0_06", *JAVA_END, "Content-Length"),
    body=b"datasource=sample&feedtype=full&" + PAIRS,
)
HTTPLIB_SCRIPT = (
    b"POST /xmlfeed HTTP/1.0\r\n"
    b"content-type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"content-length: 627\r\n"
    b"\r\n" + multipart(PYTHON, SAMPLE, FULL, part("data", SMALL_FEED, XML, filename="sample.xml"))
)
CURL_BODY = multipart(
    CURL,
    part("data", SMALL_FEED, "Content-Type: application/xml", filename="sample.xml"),
    *(SAMPLE, FULL),
)
CURL_HEAD = head(
    *("POST /xmlfeed HTTP/1.1", "Host: gsa.example.com:19900", "User-Agent: curl/7.88.1"),
    *("Accept: */*", "Content-Length", f"Content-Type: multipart/form-data; boundary={CURL}"),
    "Expect: 100-continue",
    body=CURL_BODY,
)
REPLICATION = request(
    *("POST /texis/dowalk/recvdata.xml HTTP/1.1", "Host: search.example.com"),
    "User-Agent: Mozilla/2.0 (compatible; T-H-U-N-D-E-R-S-T-O-N-E)",
    *("Content-Type: application/x-www-form-urlencoded", "Content-Length"),
    body=b"profile=intranet&data=%3C%3Fxml%20version%3D%221.0%22%20encoding%3D%22UTF-8%22%3F%3E%0A%3C"
    b"ThunderstoneReplication%20xmlns%3Adt%3D%22urn%3Aschemas-microsoft-com%3Adatatypes%22%3E%0A"
    b"%3CItem%3E%0A%3CType%3EI%3C%2FType%3E%0A%3CUrl%3Ehttp%3A%2F%2Fwww.example.com%2Fa%3Fb%3D1"
    b"%26amp%3Bc%3D2%3C%2FUrl%3E%0A%3CRawData%20dt%3Adt%3D%22bin.base64%22%3EPGI%2BMTwvYj4%2F"
    b"%3C%2FRawData%3E%0A%3C%2FItem%3E%0A%3C%2FThunderstoneReplication%3E%0A",
)
REPLICATED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<ThunderstoneReplicationResult>\n"
    b"<ItemResult><rid>000000000</rid><Type>I</Type><Status>OK</Status></ItemResult>\n"
    b"<Rows>1</Rows>\n"
    b"<Version>Version 5.01.0 20051010 (feedferry, modelled on the manual)\n"
    b"2005-10-10 12:34:56</Version>\n"
    b"</ThunderstoneReplicationResult>\n"
)


class OldClient(NamedTuple):
    """A request, and how it is to be understood."""

    raw: bytes
    endpoint: str
    datasource: str
    feedtype: str
    feed: bytes
    says: bytes = b"Success"


CLIENTS = {
    "adaptor library": OldClient(
        ADAPTOR_LIBRARY, "xmlfeed", "adaptor", "metadata-and-url", WEB_FEED
    ),
    "adaptor library, gzip in chunks": OldClient(
        ADAPTOR_LIBRARY_GZIP, "xmlfeed", "adaptor", "metadata-and-url", WEB_FEED
    ),
    "adaptor library, groups": OldClient(
        ADAPTOR_LIBRARY_GROUPS, "xmlgroups", "adaptor", "incremental", GROUPS_FEED
    ),
    "adaptor library, cleanup": OldClient(CLEANUP, "xmlgroups", "adaptor", "cleanup", b""),
    "gsafeed library, replace": OldClient(REPLACE, "xmlgroups", "adaptor", "replace", GROUPS_FEED),
    "connector manager": OldClient(
        CONNECTOR_MANAGER, "xmlfeed", "files", "incremental", CONTENT_FEED
    ),
    "pushgroups_client.py": OldClient(
        PUSHGROUPS_CLIENT, "xmlgroups", "others", "incremental", GROUPS_FEED
    ),
    "a Thunderstone appliance": OldClient(
        REPLICATION, "recvdata", "intranet", "", DATA, REPLICATED
    ),
} | {
    name: OldClient(raw, "xmlfeed", "sample", "full", SMALL_FEED)
    for name, raw in {
        "connector manager of 2006": OLD_CONNECTOR_MANAGER,
        "gsa_feed.py of the admin toolkit": ADMIN_TOOLKIT,
        "pushfeed_client.py": PUSHFEED_CLIENT,
        "pushfeed_client3.py": PUSHFEED_CLIENT_3,
        "the guide's form in a browser": WEB_FORM,
        "the guide's example": GUIDE_EXAMPLE,
        "a script on httplib": HTTPLIB_SCRIPT,
        "curl": CURL_HEAD + CURL_BODY,
    }.items()
}


@pytest.mark.parametrize("name", CLIENTS)
def test_request_of_a_client_is_stored_and_answered(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    with receiving(tmp_path) as receiver:
        heard = say(receiver.port, client.raw)
    assert (heard.status, heard.body) == (200, client.says)
    assert kept(tmp_path) == [(client.datasource, client.feedtype, client.feed)]
    (delivery,) = deliveries(tmp_path)
    assert (delivery.endpoint, delivery.client) == (client.endpoint, "127.0.0.1")
    agent = re.search(rb"(?i)\r\nuser-agent: ([^\r]*)", client.raw)
    assert delivery.user_agent == (agent[1].decode() if agent else "")


@pytest.mark.parametrize("name", CLIENTS)
def test_request_in_small_packets_is_understood(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        list(map(talk.send, (client.raw[at : at + 7] for at in range(0, len(client.raw), 7))))
        assert talk.hear().body == client.says
    assert kept(tmp_path) == [(client.datasource, client.feedtype, client.feed)]


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_is_cut_off_leaves_nothing(name: str, tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver:
        with Talk(receiver.port) as talk:
            talk.send(CLIENTS[name].raw[:-5])
        assert say(receiver.port, ADMIN_TOOLKIT).body == b"Success"
    assert kept(tmp_path) == [("sample", "full", SMALL_FEED)]


def test_the_connector_manager_asks_for_the_backlog_and_the_dtd(tmp_path: Path) -> None:
    headers = ("User-Agent: Java/1.7.0_80", *JAVA_END)
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        talk.send(head("GET /getbacklogcount HTTP/1.1", *headers))
        count = talk.hear(method="GET")
        talk.send(head("GET /getdtd HTTP/1.1", *headers))
        dtd = talk.hear(method="GET")
    assert (count.status, count.body) == (200, b"0")
    assert (dtd.status, b"<!ELEMENT gsafeed" in dtd.body) == (200, True)
