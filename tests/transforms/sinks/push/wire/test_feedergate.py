"""The meaning of a GSA's responses, and of its backlog."""

import pytest

from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.throttle.backlog import BacklogCount
from transforms.sinks.push.wire.feedergate import FEEDERGATE
from transforms.sinks.push.wire.protocol import ApplianceProtocol
from transforms.sinks.push.wire.recvdata import RECVDATA
from transforms.sinks.push.wire.responses import judge_response, retry_after_seconds

URL = "http://gsa.example.com:19900/xmlfeed"
TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
ADDRESS = "check host and port of --to; a feedergate listens on port 19900, with TLS on 19902"
FULL_DISK = "Feed not accepted due to insufficient disk space. Retry later."
LOGIN = "<!-- a proxy --><!DOCTYPE html><html><head><title>Log in &amp; go</title></head></html>"
NOT_THERE = f"expected feeds to be accepted there: {ADDRESS}"
RETRY, FATAL = ResponseMeaning.RETRY, ResponseMeaning.FATAL


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
        (
            "Error - Unauthorized Request",
            200,
            FATAL,
            f"'Error - Unauthorized Request'; expected Success: {TRUST}",
        ),
        (
            FULL_DISK,
            200,
            ResponseMeaning.FULL_DISK,
            f"'{FULL_DISK}'; expected Success: it has space again when it has digested feeds, or "
            "when an administrator makes some",
        ),
        (
            "error: group db at capacity.",
            200,
            FATAL,
            "'error: group db at capacity.'; expected Success: the groups of all groupsources may "
            "have 1 GB; remove some first",
        ),
        ("Internal Error", 200, RETRY, "'Internal Error'; expected Success"),
        ("Internal Error", 400, RETRY, "'Internal Error'; expected Success"),
        ("", 200, RETRY, "an empty response; expected Success"),
        ("", 507, ResponseMeaning.FULL_DISK, "an empty response; expected disk space for a feed"),
        ("no", 401, FATAL, f"'no'; expected no request for a user: {ADDRESS}"),
        ("no", 403, FATAL, f"'no'; expected to be trusted: {TRUST}"),
        *(("no", status, FATAL, f"'no'; {NOT_THERE}") for status in (404, 405, 501)),
        (
            "no",
            407,
            FATAL,
            "'no'; expected a proxy that asks for no user: check --proxy, or leave it out",
        ),
        ("no", 411, FATAL, "'no'; expected Success"),
        *(("no", status, RETRY, "'no'; expected Success") for status in (408, 429, 500, 503)),
        (
            "",
            302,
            FATAL,
            "an empty response; a redirect to no address, which is not followed: if it is right, "
            "give it as --to",
        ),
        (LOGIN, 200, FATAL, f"a page with the title 'Log in & go'; expected Success: {ADDRESS}"),
        (
            "<html><body>Bad <b>gateway</b></body></html>",
            502,
            RETRY,
            "a page with 'Bad gateway'; expected Success",
        ),
        (
            "<html><body>sent to the HTTPS port, malformed</body></html>",
            400,
            FATAL,
            "a page with 'sent to the HTTPS port, malformed'; expected Success",
        ),
        (
            "a\r\nb\x1b[0m" + "x" * 400,
            200,
            FATAL,
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


def test_success_as_html_is_no_acceptance() -> None:
    assert judge(response("Success", content_type="text/html")).meaning is FATAL


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
        ("large", 413, "expected it to be small enough: a part of it may be"),
        (
            "<html><title>Too Large</title></html>",
            413,
            "expected it to be small enough: a part of it may be",
        ),
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
    found = read_backlog(response(text, status))

    assert found == f"{URL}: {status}, {expected}; expected a number of feeds"


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
