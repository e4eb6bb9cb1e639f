"""Requests of the clients that exist, byte by byte, and what a receiver makes of them.

Hosts, names and contents are made up; what else stands in the requests is what these programs send.
"""

import gzip
from pathlib import Path
from typing import NamedTuple

import pytest

from schemas.delivery import Door
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
SQUEEZED = gzip.compress(
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"adaptor\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"metadata-and-url\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + WEB_FEED + b"\r\n"
    b"--<<--\r\n",
    mtime=0,
)

ADAPTOR_LIBRARY = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.8.0_292\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 605\r\n"
    b"\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"adaptor\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"metadata-and-url\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + WEB_FEED + b"\r\n"
    b"--<<--\r\n"
)
ADAPTOR_LIBRARY_GZIP = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Content-Encoding: gzip\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.8.0_292\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Transfer-Encoding: chunked\r\n"
    b"\r\n"
    b"a\r\n" + SQUEEZED[:10] + b"\r\n"
    b"%x\r\n" % len(SQUEEZED[10:]) + SQUEEZED[10:] + b"\r\n"
    b"0\r\n"
    b"\r\n"
)
ADAPTOR_LIBRARY_GROUPS = (
    b"POST /xmlgroups HTTP/1.1\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.8.0_292\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 634\r\n"
    b"\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="groupsource"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"adaptor\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"incremental\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + GROUPS_FEED + b"\r\n"
    b"--<<--\r\n"
)
CLEANUP = (
    b"POST /xmlgroups HTTP/1.1\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.8.0_292\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 99\r\n"
    b"\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="cleanup"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"adaptor\r\n"
    b"--<<--\r\n"
)
REPLACE = (
    b"POST /xmlgroups HTTP/1.1\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.8.0_292\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 534\r\n"
    b"\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="replace"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"adaptor\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + GROUPS_FEED + b"\r\n"
    b"--<<--\r\n"
)
CONNECTOR_MANAGER = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Content-Type: multipart/form-data; boundary=<<\r\n"
    b"User-Agent: Java/1.7.0_80\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 675\r\n"
    b"\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"files\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"Content-Type: text/plain\r\n"
    b"\r\n"
    b"incremental\r\n"
    b"--<<\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + CONTENT_FEED + b"\r\n"
    b"--<<--\r\n"
)
ADMIN_TOOLKIT = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Accept-Encoding: identity\r\n"
    b"Content-Length: 580\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Content-Type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"Connection: close\r\n"
    b"User-Agent: Python-urllib/2.7\r\n"
    b"\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="data"\r\n'
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"------------boundary_of_feed_data$--\r\n"
)
PUSHFEED_CLIENT = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Accept-Encoding: identity\r\n"
    b"Content-Length: 637\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Content-Type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"Connection: close\r\n"
    b"User-Agent: Python-urllib/2.7\r\n"
    b"\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="data"; filename="/feeds/../sample.xml"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"------------boundary_of_feed_data$--\r\n"
)
PUSHFEED_CLIENT_3 = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Accept-Encoding: identity\r\n"
    b"Content-Type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"Content-Length: 634\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"User-Agent: Python-urllib/3.4\r\n"
    b"Connection: close\r\n"
    b"\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="data"; filename="sample.xml"\r\n'
    b"Content-Type: application/xml\r\n"
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"------------boundary_of_feed_data$--\r\n"
)
PUSHGROUPS_CLIENT = (
    b"POST /xmlgroups HTTP/1.1\r\n"
    b"Accept-Encoding: identity\r\n"
    b"Content-Length: 629\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Content-Type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"Connection: close\r\n"
    b"User-Agent: Python-urllib/2.7\r\n"
    b"\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="groupsource"\r\n'
    b"\r\n"
    b"others\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="data"; filename="groups_feed.xml"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + GROUPS_FEED + b"\r\n"
    b"------------boundary_of_feed_data$--\r\n"
)
WEB_FORM = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 650\r\n"
    b"Cache-Control: max-age=0\r\n"
    b"Upgrade-Insecure-Requests: 1\r\n"
    b"Origin: http://forms.example.com\r\n"
    b"Content-Type: multipart/form-data; boundary=----WebKitFormBoundaryRx9ZkYbQ2hVnTfWd\r\n"
    b"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0\r\n"
    b"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    b"Referer: http://forms.example.com/\r\n"
    b"Accept-Encoding: gzip, deflate\r\n"
    b"Accept-Language: en-US,en;q=0.9\r\n"
    b"\r\n"
    b"------WebKitFormBoundaryRx9ZkYbQ2hVnTfWd\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"------WebKitFormBoundaryRx9ZkYbQ2hVnTfWd\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"------WebKitFormBoundaryRx9ZkYbQ2hVnTfWd\r\n"
    b'Content-Disposition: form-data; name="data"; filename="\xc3\xbc%22.xml"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"------WebKitFormBoundaryRx9ZkYbQ2hVnTfWd--\r\n"
)
GUIDE_EXAMPLE = (
    b"POST /xmlfeed HTTP/1.0\r\n"
    b"Content-type: multipart/form-data\r\n"
    b"Content-length: 436\r\n"
    b"Host: myserver.domain.com:19900\r\n"
    b"User-agent: Python-urllib/1.15\r\n"
    b"\r\n"
    b"feedtype=full&datasource=sample&data=%3C%3Fxml+version%3D%221.0%22+encoding%3D%22UTF-8%22"
    b"%3F%3E%0A%3C%21DOCTYPE+gsafeed+SYSTEM+%22gsafeed.dtd%22%3E%0A%3Cgsafeed%3E%3Cheader%3E"
    b"%3Cdatasource%3Esample%3C%2Fdatasource%3E%3Cfeedtype%3Efull%3C%2Ffeedtype%3E%3C%2Fheader%3E"
    b"%3Cgroup%3E%3Crecord+url%3D%22http%3A%2F%2Fh%2F1%22+mimetype%3D%22text%2Fplain%22%3E"
    b"%3Ccontent%3E1%2B1%3D2%3C%2Fcontent%3E%3C%2Frecord%3E%3C%2Fgroup%3E%3C%2Fgsafeed%3E%0A"
)
OLD_CONNECTOR_MANAGER = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
    b"User-Agent: Java/1.5.0_06\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
    b"Connection: keep-alive\r\n"
    b"Content-Length: 436\r\n"
    b"\r\n"
    b"datasource=sample&feedtype=full&data=%3C%3Fxml+version%3D%221.0%22+encoding%3D%22UTF-8%22"
    b"%3F%3E%0A%3C%21DOCTYPE+gsafeed+SYSTEM+%22gsafeed.dtd%22%3E%0A%3Cgsafeed%3E%3Cheader%3E"
    b"%3Cdatasource%3Esample%3C%2Fdatasource%3E%3Cfeedtype%3Efull%3C%2Ffeedtype%3E%3C%2Fheader%3E"
    b"%3Cgroup%3E%3Crecord+url%3D%22http%3A%2F%2Fh%2F1%22+mimetype%3D%22text%2Fplain%22%3E"
    b"%3Ccontent%3E1%2B1%3D2%3C%2Fcontent%3E%3C%2Frecord%3E%3C%2Fgroup%3E%3C%2Fgsafeed%3E%0A"
)
HTTPLIB_SCRIPT = (
    b"POST /xmlfeed HTTP/1.0\r\n"
    b"content-type: multipart/form-data; boundary=----------boundary_of_feed_data$\r\n"
    b"content-length: 627\r\n"
    b"\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"------------boundary_of_feed_data$\r\n"
    b'Content-Disposition: form-data; name="data"; filename="sample.xml"\r\n'
    b"Content-Type: text/xml\r\n"
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"------------boundary_of_feed_data$--\r\n"
)
CURL_HEAD = (
    b"POST /xmlfeed HTTP/1.1\r\n"
    b"Host: gsa.example.com:19900\r\n"
    b"User-Agent: curl/7.88.1\r\n"
    b"Accept: */*\r\n"
    b"Content-Length: 666\r\n"
    b"Content-Type: multipart/form-data; boundary=------------------------1bb4f3d0a7c96f0e\r\n"
    b"Expect: 100-continue\r\n"
    b"\r\n"
)
CURL_BODY = (
    b"--------------------------1bb4f3d0a7c96f0e\r\n"
    b'Content-Disposition: form-data; name="data"; filename="sample.xml"\r\n'
    b"Content-Type: application/xml\r\n"
    b"\r\n" + SMALL_FEED + b"\r\n"
    b"--------------------------1bb4f3d0a7c96f0e\r\n"
    b'Content-Disposition: form-data; name="datasource"\r\n'
    b"\r\n"
    b"sample\r\n"
    b"--------------------------1bb4f3d0a7c96f0e\r\n"
    b'Content-Disposition: form-data; name="feedtype"\r\n'
    b"\r\n"
    b"full\r\n"
    b"--------------------------1bb4f3d0a7c96f0e--\r\n"
)
REPLICATION = (
    b"POST /texis/dowalk/recvdata.xml HTTP/1.1\r\n"
    b"Host: search.example.com\r\n"
    b"User-Agent: Mozilla/2.0 (compatible; T-H-U-N-D-E-R-S-T-O-N-E)\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 426\r\n"
    b"\r\n"
    b"profile=intranet&data=%3C%3Fxml%20version%3D%221.0%22%20encoding%3D%22UTF-8%22%3F%3E%0A%3C"
    b"ThunderstoneReplication%20xmlns%3Adt%3D%22urn%3Aschemas-microsoft-com%3Adatatypes%22%3E%0A"
    b"%3CItem%3E%0A%3CType%3EI%3C%2FType%3E%0A%3CUrl%3Ehttp%3A%2F%2Fwww.example.com%2Fa%3Fb%3D1"
    b"%26amp%3Bc%3D2%3C%2FUrl%3E%0A%3CRawData%20dt%3Adt%3D%22bin.base64%22%3EPGI%2BMTwvYj4%2F"
    b"%3C%2FRawData%3E%0A%3C%2FItem%3E%0A%3C%2FThunderstoneReplication%3E%0A"
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


class Known(NamedTuple):
    """A request, and how it is to be understood."""

    raw: bytes
    door: Door
    datasource: str
    feedtype: str
    feed: bytes
    user_agent: str = ""
    says: bytes = b"Success"


CLIENTS = {
    "adaptor library": Known(
        ADAPTOR_LIBRARY, Door.FEED, "adaptor", "metadata-and-url", WEB_FEED, "Java/1.8.0_292"
    ),
    "adaptor library, gzip in chunks": Known(
        ADAPTOR_LIBRARY_GZIP, Door.FEED, "adaptor", "metadata-and-url", WEB_FEED, "Java/1.8.0_292"
    ),
    "adaptor library, groups": Known(
        ADAPTOR_LIBRARY_GROUPS,
        Door.GROUPS,
        "adaptor",
        "incremental",
        GROUPS_FEED,
        "Java/1.8.0_292",
    ),
    "adaptor library, cleanup": Known(
        CLEANUP, Door.GROUPS, "adaptor", "cleanup", b"", "Java/1.8.0_292"
    ),
    "gsafeed library, replace": Known(
        REPLACE, Door.GROUPS, "adaptor", "replace", GROUPS_FEED, "Java/1.8.0_292"
    ),
    "connector manager": Known(
        CONNECTOR_MANAGER, Door.FEED, "files", "incremental", CONTENT_FEED, "Java/1.7.0_80"
    ),
    "connector manager of 2006": Known(
        OLD_CONNECTOR_MANAGER, Door.FEED, "sample", "full", SMALL_FEED, "Java/1.5.0_06"
    ),
    "gsa_feed.py of the admin toolkit": Known(
        ADMIN_TOOLKIT, Door.FEED, "sample", "full", SMALL_FEED, "Python-urllib/2.7"
    ),
    "pushfeed_client.py": Known(
        PUSHFEED_CLIENT, Door.FEED, "sample", "full", SMALL_FEED, "Python-urllib/2.7"
    ),
    "pushfeed_client3.py": Known(
        PUSHFEED_CLIENT_3, Door.FEED, "sample", "full", SMALL_FEED, "Python-urllib/3.4"
    ),
    "pushgroups_client.py": Known(
        PUSHGROUPS_CLIENT, Door.GROUPS, "others", "incremental", GROUPS_FEED, "Python-urllib/2.7"
    ),
    "the guide's form in a browser": Known(
        WEB_FORM,
        Door.FEED,
        "sample",
        "full",
        SMALL_FEED,
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0",
    ),
    "the guide's example": Known(
        GUIDE_EXAMPLE, Door.FEED, "sample", "full", SMALL_FEED, "Python-urllib/1.15"
    ),
    "a script on httplib": Known(HTTPLIB_SCRIPT, Door.FEED, "sample", "full", SMALL_FEED),
    "a Thunderstone appliance": Known(
        REPLICATION,
        Door.DATA,
        "intranet",
        "",
        DATA,
        "Mozilla/2.0 (compatible; T-H-U-N-D-E-R-S-T-O-N-E)",
        REPLICATED,
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_request_of_a_client_is_stored_and_answered(name: str, tmp_path: Path) -> None:
    client = CLIENTS[name]
    with receiving(tmp_path) as receiver:
        heard = say(receiver.port, client.raw)
    assert (heard.status, heard.body) == (200, client.says)
    assert kept(tmp_path) == [(client.datasource, client.feedtype, client.feed)]
    (delivery,) = deliveries(tmp_path)
    assert (delivery.door, delivery.client, delivery.user_agent) == (
        client.door,
        "127.0.0.1",
        client.user_agent,
    )


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


def test_curl_gets_100_continue(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        talk.send(CURL_HEAD)
        assert talk.socket.recv(25) == b"HTTP/1.1 100 Continue\r\n\r\n"
        talk.send(CURL_BODY)
        assert talk.hear().body == b"Success"
    assert kept(tmp_path) == [("sample", "full", SMALL_FEED)]


def test_java_keeps_its_connection_for_the_next_feed(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        talk.send(ADAPTOR_LIBRARY)
        first = talk.hear()
        talk.send(ADAPTOR_LIBRARY_GZIP)
        second = talk.hear()
        talk.send(CLEANUP)
        assert [first.body, second.body, talk.hear().body] == [b"Success"] * 3
    assert len(deliveries(tmp_path)) == 3


def test_a_client_of_http_1_0_is_let_go(tmp_path: Path) -> None:
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        talk.send(GUIDE_EXAMPLE)
        heard = talk.hear()
        assert (heard.headers["connection"], heard.headers["content-length"]) == ("close", "7")
        assert talk.ends()


def test_the_connector_manager_asks_for_the_backlog_and_the_dtd(tmp_path: Path) -> None:
    head = (
        b" HTTP/1.1\r\n"
        b"User-Agent: Java/1.7.0_80\r\n"
        b"Host: gsa.example.com:19900\r\n"
        b"Accept: text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2\r\n"
        b"Connection: keep-alive\r\n"
        b"\r\n"
    )
    with receiving(tmp_path) as receiver, Talk(receiver.port) as talk:
        talk.send(b"GET /getbacklogcount" + head)
        count = talk.hear(method="GET")
        talk.send(b"GET /getdtd" + head)
        dtd = talk.hear(method="GET")
    assert (count.status, count.body) == (200, b"0")
    assert (dtd.status, b"<!ELEMENT gsafeed" in dtd.body) == (200, True)
