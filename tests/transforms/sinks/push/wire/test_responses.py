"""The meaning of the responses of appliances, and of the backlog of a GSA."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from feedferry.schemas.account import Chunk
from feedferry.schemas.receipt import Refusal
from feedferry.transforms.sinks.push.model import (
    ApplianceResponse,
    ChunkPart,
    ResponseMeaning,
    Verdict,
)
from feedferry.transforms.sinks.push.throttle.backlog import BacklogCount
from feedferry.transforms.sinks.push.wire.feedergate import FEEDERGATE
from feedferry.transforms.sinks.push.wire.protocol import ApplianceProtocol
from feedferry.transforms.sinks.push.wire.recvdata import RECVDATA
from feedferry.transforms.sinks.push.wire.responses import judge_response, retry_after_seconds

URL = "http://gsa.example.com:19900/xmlfeed"
TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
ADDRESS = "check host and port of ⟦url⟧; a feedergate listens on port 19900, with TLS on 19902"
FULL_DISK = "Feed not accepted due to insufficient disk space. Retry later."
LOGIN = "<!-- a proxy --><!DOCTYPE html><html><head><title>Log in &amp; go</title></head></html>"
NOT_THERE = f"expected feeds to be accepted there: {ADDRESS}"
RETRY, FATAL = ResponseMeaning.RETRY, ResponseMeaning.FATAL
NO_SPACE = ResponseMeaning.FULL_DISK
UNTRUSTED, FULL_GROUPS = "Error - Unauthorized Request", "error: group db at capacity."
WAIT_FOR_SPACE = (
    "it has space again when it has digested feeds, or when an administrator makes some"
)
REMOVE_GROUPS = "the groups of all groupsources may have 1 GB; remove some first"
CHECK_PROXY = "check ⟦proxy⟧, or leave it out"
FOLLOW = "which is not followed: if it is right, give it as ⟦url⟧"
BAD_GATEWAY = "<html><body>Bad <b>gateway</b></body></html>"


def response(text: str, status: int = 200, **fields: object) -> ApplianceResponse:
    stated: dict[str, object] = {"url": URL, "content_type": "text/plain", **fields}
    return ApplianceResponse(status=status, body=text.encode(), **stated)  # type: ignore[arg-type]


def read_backlog(received: ApplianceResponse) -> BacklogCount:
    assert FEEDERGATE.read_backlog
    return FEEDERGATE.read_backlog(received)


def judge(received: ApplianceResponse) -> Verdict:
    return judge_response(FEEDERGATE, received)


@pytest.mark.parametrize("text", ["Success", "SUCCESS", " Success\n", "\r\nSuc\r\ncess\r\n"])
@pytest.mark.parametrize("status", [200, 202])
def test_success_is_acceptance(text: str, status: int) -> None:
    assert judge(response(text, status)).meaning is ResponseMeaning.ACCEPTED


def test_success_before_the_end_of_the_feed_is_no_acceptance() -> None:
    early = response("Success", is_unsent=True, sent_bytes=17)

    assert judge(early) == Verdict(
        meaning=RETRY,
        message=f"{URL}: 'Success' after 17 bytes; expected the whole feed to be read first",
    )


@pytest.mark.parametrize(
    ("text", "status", "meaning", "message"),
    [
        ("Success", 500, RETRY, "'Success'; expected Success"),
        ("Successful", 200, FATAL, f"'Successful'; expected Success: {ADDRESS}"),
        ("Success: 1 feed", 200, FATAL, f"'Success: 1 feed'; expected Success: {ADDRESS}"),
        (UNTRUSTED, 200, FATAL, f"'{UNTRUSTED}'; expected Success: {TRUST}"),
        (FULL_DISK, 200, NO_SPACE, f"'{FULL_DISK}'; expected Success: {WAIT_FOR_SPACE}"),
        (FULL_GROUPS, 200, FATAL, f"'{FULL_GROUPS}'; expected Success: {REMOVE_GROUPS}"),
        ("Internal Error", 200, RETRY, "'Internal Error'; expected Success"),
        ("Internal Error", 400, RETRY, "'Internal Error'; expected Success"),
        ("", 200, RETRY, "an empty response; expected Success"),
        ("", 507, NO_SPACE, "an empty response; expected disk space for a feed"),
        ("no", 401, FATAL, f"'no'; expected access without authentication: {ADDRESS}"),
        ("no", 403, FATAL, f"'no'; expected to be trusted: {TRUST}"),
        *(("no", status, FATAL, f"'no'; {NOT_THERE}") for status in (404, 405, 501)),
        ("no", 407, FATAL, f"'no'; expected a proxy without authentication: {CHECK_PROXY}"),
        ("no", 411, FATAL, "'no'; expected Success"),
        *(("no", status, RETRY, "'no'; expected Success") for status in (408, 429, 500, 503)),
        ("", 302, FATAL, f"an empty response; a redirect to no address, {FOLLOW}"),
        (LOGIN, 200, FATAL, f"a page with the title 'Log in & go'; expected Success: {ADDRESS}"),
        (BAD_GATEWAY, 502, RETRY, "a page with 'Bad gateway'; expected Success"),
        (
            "<html><body>sent to the HTTPS port, malformed</body></html>",
            *(400, FATAL),
            "a page with 'sent to the HTTPS port, malformed'; expected Success",
        ),
        (
            "a\r\nb\x1b[0m" + "x" * 400,
            *(200, FATAL),
            f"'a\\r\\nb\\x1b[0m{'x' * 192}'…; expected Success: {ADDRESS}",
        ),
    ],
)
def test_a_response_is_judged_with_a_fix(
    text: str, status: int, meaning: ResponseMeaning, message: str
) -> None:
    assert judge(response(text, status)) == Verdict(
        meaning=meaning, message=f"{URL}: {status}, {message}"
    )


def test_a_redirect_is_named() -> None:
    moved = response("", 302, location="https://gsa.example.com:19902/xmlfeed")

    assert "a redirect to 'https://gsa.example.com:19902/xmlfeed', which" in judge(moved).message


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Success\r\n", ResponseMeaning.ACCEPTED),
        ("<p>Success</p>", FATAL),
        ("Error - Unauthorized Request", FATAL),
    ],
)
def test_a_text_without_markup_is_no_page_whatever_its_type(
    text: str, meaning: ResponseMeaning
) -> None:
    as_html = judge(response(text, content_type="text/html; charset=utf-8"))
    assert as_html.meaning is meaning
    assert ("Trusted IP Addresses" in as_html.message) is text.startswith("Error")


TOO_LARGE = "expected it to be small enough: a part of it may be"
NOT_READ = "expected Success: the appliance cannot read something in it"


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        *(("bad record", status, NOT_READ) for status in (400, 422)),
        *(
            (text, status, NOT_READ)
            for status in (200, 500)
            for text in ("ProcessFeed: parsing error", "XML is not well-formed", "Malformed feed")
        ),
        *((text, 413, TOO_LARGE) for text in ("large", "<html><title>Too Large</title></html>")),
    ],
)
def test_a_refused_feed_may_be_split(text: str, status: int, expected: str) -> None:
    verdict = judge(response(text, status))

    assert verdict.meaning is ResponseMeaning.REFUSED
    assert verdict.message.endswith(f"; {expected}")


@pytest.mark.parametrize(("is_permanent", "meaning"), [(False, RETRY), (True, FATAL)])
@pytest.mark.parametrize("protocol", [FEEDERGATE, RECVDATA], ids=["GSA", "Thunderstone"])
def test_an_error_is_judged_by_whether_it_stays(
    protocol: ApplianceProtocol, is_permanent: bool, meaning: ResponseMeaning
) -> None:
    error = ApplianceResponse(error="gsa: connection closed", is_permanent=is_permanent)

    assert judge_response(protocol, error) == Verdict(meaning=meaning, message=error.error)


def test_a_response_in_another_encoding_is_quoted() -> None:
    strange = ApplianceResponse(status=200, body=b"\xff\xfe\x01")

    assert judge(strange).message.startswith("the appliance: 200, '\ufffd\ufffd\\x01'; expected")


def test_a_hostile_page_takes_no_long_time() -> None:
    page = "<!---->" * 3000 + "<title>" * 3000

    assert judge(response(page, content_type="text/html")).meaning is FATAL


# Backlog


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("4001\n", 4001), (" 17 \r\n", 17)])
def test_a_number_is_the_backlog(text: str, count: int) -> None:
    assert read_backlog(response(text)) == count


def test_an_appliance_without_the_page_has_no_backlog() -> None:
    assert read_backlog(response("Not Found", 404)) is None


@pytest.mark.parametrize(
    ("text", "status", "expected"),
    [
        *((text, 200, f"'{text}'") for text in ("-5", "many", "1.5", "1 2", "9" * 19, "٣")),
        ("", 200, "an empty response"),
        ("17", 500, "'17'"),
        (LOGIN, 200, "a page with the title 'Log in & go'"),
    ],
)
def test_other_responses_are_no_backlog(text: str, status: int, expected: str) -> None:
    backlog = read_backlog(response(text, status))

    assert backlog == f"{URL}: {status}, {expected}; expected a number of feeds"


def test_a_refused_request_for_the_backlog_names_the_fix() -> None:
    assert read_backlog(response("no", 403)) == (
        f"{URL}: 403, 'no'; expected a number of feeds: {TRUST}"
    )
    assert read_backlog(ApplianceResponse(error="connection refused")) == "connection refused"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("120", 120), (" 0 ", 0), ("", None), ("soon", None), ("-1", None), ("1.5", None)),
        ("Sat, 21 Nov 2026 12:01:00 GMT", None),
    ],
)
def test_a_retry_after_is_a_number_of_seconds(text: str, expected: float | None) -> None:
    assert retry_after_seconds(ApplianceResponse(retry_after=text)) == expected


# Thunderstone

RECVDATA_URL = "http://www.example.com/texis/dowalk/recvdata.xml"
CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
ADMIN_ADDRESS = (
    "check ⟦url⟧: expected the address of the admin interface, followed by /recvdata.xml"
)
NO_RESULT = f"expected a ThunderstoneReplicationResult: {ADMIN_ADDRESS}"
OK = "<ItemResult><rid>0</rid><Type>I</Type><Status>OK</Status></ItemResult>"
NOT_FOUND = "accepted with the remark 'Not found', as the appliance does not have the document"
NO_DATA = OK.replace("OK", "NODATA")
SEE_LOG = "it does not say why; see its own log"
FAIL = "<ItemResult><Type>I</Type><Status>FAIL</Status><Info>no room</Info></ItemResult>"
UNKNOWN = "<ItemResult><Type>X</Type><Status>FAIL_UNKNOWNTYPE</Status></ItemResult>"
MANUAL = """
<ThunderstoneReplicationResult>
  <ItemResult>
    <rid>000000000</rid><Type>D</Type><DP>1</DP><Status>OK</Status><Info>Not found</Info>
  </ItemResult>
  <Rows>1</Rows>
  <Version>Version 5.01.1234567890 20051010 (i686-unknown-linux2.4.2-64-32)
           2005-10-10 12:34:56</Version>
</ThunderstoneReplicationResult>
"""


def result(*inside: str, rows: int | str | None = None) -> str:
    count = "" if rows is None else f"<Rows>{rows}</Rows>"
    return (
        f"<ThunderstoneReplicationResult>{''.join(inside)}{count}</ThunderstoneReplicationResult>"
    )


def status(text: str) -> str:
    return result(f"<Status>{text}</Status>")


IN_A_NAMESPACE = result(OK, rows=1).replace("Result>", 'Result xmlns="urn:x">', 1)


def judge_items(received: ApplianceResponse, *, sent: int) -> Verdict:
    chunk = Chunk(
        path="a.xml",
        bytes=0,
        sha256="",
        records={"ADD": sent} if sent else {},
        first_url="",
        last_url="",
        source="",
        span=0,
    )
    part = ChunkPart(chunk=chunk, path=Path("a.xml"), offset=0, length=0, sha256="")
    return judge_response(RECVDATA, replace(received, url=RECVDATA_URL), part)


def test_the_response_of_the_manual_is_acceptance_with_a_remark() -> None:
    assert judge_items(response(MANUAL), sent=1) == Verdict(
        meaning=ResponseMeaning.ACCEPTED, message="OK for 1 of 1 Items", notices=(NOT_FOUND,)
    )


@pytest.mark.parametrize(
    ("text", "sent", "message"),
    [
        (result(OK, OK, rows=2), 2, "OK for 2 of 2 Items"),
        (result(OK, OK), 0, "OK for 2 of 2 Items"),
        (result(OK, OK, rows="x"), 2, "OK for 2 of 2 Items"),
        (result(OK.replace("OK", "\n ok "), rows=1), 1, "OK for 1 of 1 Items"),
        (IN_A_NAMESPACE, 1, "OK for 1 of 1 Items"),
        ('\r\n<?xml version="1.0"?>' + result(OK, rows=1), 1, "OK for 1 of 1 Items"),
        ("<!DOCTYPE x><!-- by a script -->" + result(OK, rows=1), 1, "OK for 1 of 1 Items"),
        (result(OK, rows=0), 1, "OK for 1 of 1 Items"),
        (result("<Status>OK</Status>", rows=3), 3, "OK"),
    ],
)
def test_ok_for_each_item_is_acceptance(text: str, sent: int, message: str) -> None:
    assert judge_items(response(text), sent=sent) == Verdict(
        meaning=ResponseMeaning.ACCEPTED, message=message
    )


@pytest.mark.parametrize(
    ("items", "refused"),
    [
        ((OK, FAIL, OK, UNKNOWN), (Refusal(1, "FAIL, 'no room'"), Refusal(3, "FAIL_UNKNOWNTYPE"))),
        ((OK, OK.replace("OK", "FAIL\x85 later")), (Refusal(1, "'FAIL\\x85 later'"),)),
        ((OK, "<ItemResult/>"), (Refusal(1, "''"),)),
        (("<ItemResult><x><Status>FAIL</Status></x></ItemResult>", OK), (Refusal(0, "FAIL"),)),
    ],
)
def test_single_refused_items_are_named(
    items: tuple[str, ...], refused: tuple[Refusal, ...]
) -> None:
    count = len(items)
    assert judge_items(response(result(*items, rows=count)), sent=count) == Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"OK for {count - len(refused)} of {count} Items",
        refused=refused,
    )


@pytest.mark.parametrize(
    ("text", "sent", "message"),
    [
        (result(FAIL, FAIL, rows=2), 2, f"2 of 2 Items: FAIL, 'no room'; expected OK: {SEE_LOG}"),
        (
            *(result(UNKNOWN, rows=1), 1),
            "1 of 1 Items: FAIL_UNKNOWNTYPE; expected OK: it does not know the Type of an Item",
        ),
        (result(OK, OK, rows=2), 3, "results of 2 Items and Rows 2; expected 3"),
        (result(OK, OK), 1, "results of 2 Items; expected 1"),
        (result(rows=0), 1, "results of 0 Items and Rows 0; expected 1"),
        (result(), 0, "results of 0 Items; expected some"),
        (
            *(result("<x><Status>NODATA</Status></x>", rows=0), 5),
            "NODATA; expected OK: it found no Item that it could read; `feedferry inspect` may "
            "show why",
        ),
        (result(NO_DATA, rows=0), 5, "results of 1 Items and Rows 0; expected 5"),
        (
            *(result("<Status>FAIL</Status><Info>try later</Info>"), 5),
            f"FAIL, 'try later'; expected OK: {SEE_LOG}",
        ),
    ],
)
def test_numbers_that_disagree_and_failures_are_refusals(
    text: str, sent: int, message: str
) -> None:
    verdict = judge_items(response(text), sent=sent)

    assert verdict == Verdict(meaning=ResponseMeaning.REFUSED, message=f"{RECVDATA_URL}: {message}")


def test_results_that_are_cut_off_are_a_refusal() -> None:
    text = f"<ThunderstoneReplicationResult>{OK}<Version>".ljust(16 << 20, "x")

    assert judge_items(response(text), sent=2) == Verdict(
        meaning=ResponseMeaning.REFUSED,
        message=f"{RECVDATA_URL}: results longer than 16777216 bytes; expected fewer: a part of"
        " the Items will have them",
    )


@pytest.mark.parametrize(
    ("text", "status", "meaning", "message"),
    [
        (status("Not Allowed"), 200, FATAL, f"Not Allowed; expected OK: {CLUSTER}"),
        (
            *(result("<ItemResult><Status>not allowed</Status></ItemResult>"), 403, FATAL),
            f"not allowed; expected OK: {CLUSTER}",
        ),
        (
            *(status("No Profile"), 200, FATAL),
            "No Profile; expected OK: check that ⟦profile⟧ is the name of a profile there",
        ),
        (result(OK, rows=5), 503, RETRY, f"503, '{result(OK, rows=5)}'; expected a "),
        (
            *("<ThunderstoneReplicationResult><Rows>", 200, RETRY),
            "'<ThunderstoneReplicationResult><Rows>'; expected complete XML",
        ),
        (
            "<html><b>configured to deny administration\nfrom your location (IP)</b></html>",
            *(403, FATAL),
            "403, a page with 'configured to deny administration from your location (IP)'; "
            "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
        ),
        (
            "<html>not from your location via a non-secure protocol (HTTP)</html>",
            *(200, FATAL),
            "200, a page with 'not from your location via a non-secure protocol (HTTP)'; expected "
            "TLS: give ⟦url⟧ with https://",
        ),
        (
            *("<html><title>Texis</title></html>", 200, FATAL),
            f"200, a page with the title 'Texis'; {NO_RESULT}",
        ),
        (
            *("<other><Status>OK</Status></other>", 200, FATAL),
            f"200, '<other><Status>OK</Status></other>'; {NO_RESULT}",
        ),
        ("Success", 200, FATAL, f"200, 'Success'; {NO_RESULT}"),
        ("no", 404, FATAL, f"404, 'no'; expected feeds to be accepted there: {ADMIN_ADDRESS}"),
    ],
)
def test_other_responses_are_judged_with_a_fix(
    text: str, status: int, meaning: ResponseMeaning, message: str
) -> None:
    verdict = judge_items(response(text, status), sent=5)

    assert verdict.meaning is meaning
    assert verdict.message.startswith(f"{RECVDATA_URL}: {message}")


def test_ok_before_the_end_of_the_request_is_no_acceptance() -> None:
    verdict = judge_items(response(result(OK), is_unsent=True, sent_bytes=17), sent=1)

    assert verdict.meaning is RETRY
    assert verdict.message.endswith("after 17 bytes; expected the whole feed to be read first")


def test_entities_are_not_expanded(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("secret") / "ok"
    path.write_text("OK")
    for entity in ('"OK"', f'SYSTEM "{path.as_uri()}"'):
        item = result("<ItemResult><Status>&a;</Status></ItemResult>", rows=1)
        text = f"<!DOCTYPE r [<!ENTITY a {entity}>]>{item}"

        assert judge_items(response(text), sent=1).meaning is ResponseMeaning.REFUSED
