"""What the answers of a Google Search Appliance mean."""

import pytest

from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.wire.gsa_responses import count, judge

WHERE = "http://gsa.example.com:19900/xmlfeed"
TRUST = (
    "add the address of this machine to the List of Trusted IP Addresses "
    "in Content Sources > Feeds of the Admin Console"
)
ADDRESS = "check host and port of --to; a feedergate listens on 19900, with TLS on 19902"
FULL = "Feed not accepted due to insufficient disk space. Contact Google for Work Support."
LOGIN = "<!DOCTYPE html>\n<html><head><title>Log in &amp;\n go</title></head><body>…</body></html>"


def answer(text: str, status: int = 200, **fields: object) -> ApplianceResponse:
    stated: dict[str, object] = {"where": WHERE, "content_type": "text/plain", **fields}
    return ApplianceResponse(status=status, body=text.encode(), **stated)  # type: ignore[arg-type]  # fields


def judged(text: str, status: int = 200, **fields: object) -> tuple[ResponseMeaning, str]:
    verdict = judge(answer(text, status, **fields))
    assert not verdict.can_split
    return verdict.meaning, verdict.message


def refused(text: str, status: int = 200) -> str:
    """The words of a refusal of what may be taken in parts."""
    verdict = judge(answer(text, status))
    assert (verdict.meaning, verdict.can_split) == (ResponseMeaning.REFUSED, True)
    return verdict.message


@pytest.mark.parametrize(
    "text", ["Success", "success", "SUCCESS", "Success\n", " Success ", "\r\nSuc\r\ncess\r\n"]
)
def test_success_is_acceptance(text: str) -> None:
    assert judge(answer(text)).meaning is ResponseMeaning.ACCEPTED


def test_what_was_accepted_has_the_words_of_the_appliance() -> None:
    assert judge(answer("Success\n")) == Verdict(
        meaning=ResponseMeaning.ACCEPTED, message="Success"
    )


@pytest.mark.parametrize("status", [200, 201, 202])
def test_success_may_come_with_any_good_status(status: int) -> None:
    assert judge(answer("Success", status)).meaning is ResponseMeaning.ACCEPTED


def test_success_with_a_bad_status_is_none() -> None:
    assert judged("Success", 500) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: 500, 'Success'; expected Success",
    )


def test_success_before_the_feed_was_sent_is_none() -> None:
    assert judged("Success", is_unsent=True, sent_bytes=17) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: 'Success' after 17 bytes; expected the whole feed to be read first",
    )


@pytest.mark.parametrize("text", ["Successful", "No Success", "Success: 1 feed"])
def test_what_only_sounds_like_success_is_none(text: str) -> None:
    assert judged(text) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, '{text}'; expected Success: {ADDRESS}",
    )


@pytest.mark.parametrize("status", [200, 401, 403])
def test_who_is_not_trusted_is_told_where_to_be(status: int) -> None:
    assert judged("Error - Unauthorized Request", status) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: {status}, 'Error - Unauthorized Request'; expected Success: {TRUST}",
    )


def test_a_full_disk_is_waited_for() -> None:
    assert judged(FULL) == (
        ResponseMeaning.FULL_DISK,
        f"{WHERE}: 200, '{FULL}'; expected Success: it has room again when feeds are digested, "
        "or when somebody makes some",
    )


def test_a_full_disk_is_known_by_its_first_words() -> None:
    shorter = "feed not accepted due to\ninsufficient disk space"
    assert judged(shorter)[0] is ResponseMeaning.FULL_DISK


def test_groups_that_find_no_room_are_told() -> None:
    assert judged("error: group db at capacity.") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, 'error: group db at capacity.'; expected Success: "
        "the groups of all sources may have 1 GB; clear some of them first",
    )


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_internal_error_is_tried_again(status: int) -> None:
    assert judged("Internal Error", status) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: {status}, 'Internal Error'; expected Success",
    )


@pytest.mark.parametrize("status", [400, 422])
def test_a_feed_that_is_not_understood_may_be_in_parts(status: int) -> None:
    assert refused("bad record", status) == (
        f"{WHERE}: {status}, 'bad record'; expected Success: something in it is not understood"
    )


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    "text",
    [
        "ProcessFeed: parsing error",
        "XML is not well-formed",
        "Malformed feed",
        "Invalid XML in line 7",
        "Element record content does not follow the DTD, Misplaced metadata",
    ],
)
def test_a_feed_that_is_said_to_be_ill_formed_may_be_in_parts(text: str, status: int) -> None:
    assert refused(text, status) == (
        f"{WHERE}: {status}, '{text}'; expected Success: something in it is not understood"
    )


def test_a_feed_that_is_too_large_may_be_in_parts() -> None:
    assert refused("", 413) == (
        f"{WHERE}: 413, nothing; expected it to be small enough: a part of it may be"
    )


def test_a_page_may_say_that_a_feed_is_too_large() -> None:
    page = "<html><title>413 Request Entity Too Large</title></html>"
    assert refused(page, 413) == (
        f"{WHERE}: 413, a page that says '413 Request Entity Too Large'; "
        "expected it to be small enough: a part of it may be"
    )


def test_a_page_of_another_server_refuses_no_record() -> None:
    page = "<html><body>The plain HTTP request was sent to HTTPS port, malformed</body></html>"
    assert judged(page, 400, content_type="text/html") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 400, a page that says "
        "'The plain HTTP request was sent to HTTPS port, malformed'; expected Success",
    )


def test_a_page_where_text_is_due_is_shown_by_its_title() -> None:
    assert judged(LOGIN) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, a page that says 'Log in & go'; expected Success: {ADDRESS}",
    )


def test_a_page_that_says_success_is_none() -> None:
    assert judged("Success", content_type="text/html; charset=utf-8") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, 'Success'; expected Success: {ADDRESS}",
    )


def test_a_page_of_a_server_in_trouble_is_tried_again() -> None:
    page = "<html><head><title>502 Bad Gateway</title></head></html>"
    assert judged(page, 502, content_type="text/html") == (
        ResponseMeaning.RETRY,
        f"{WHERE}: 502, a page that says '502 Bad Gateway'; expected Success",
    )


@pytest.mark.parametrize(
    ("status", "cure"),
    [
        (401, f"expected no question for a user: {ADDRESS}"),
        (403, f"expected to be trusted: {TRUST}"),
        (404, f"expected feeds to be taken there: {ADDRESS}"),
        (405, f"expected feeds to be taken there: {ADDRESS}"),
        (407, "expected a proxy that asks for no user: check --proxy, or leave it out"),
        (411, "expected Success"),
        (501, f"expected feeds to be taken there: {ADDRESS}"),
    ],
)
def test_what_will_not_change_by_itself_is_told_with_its_cure(status: int, cure: str) -> None:
    assert judged("no", status) == (ResponseMeaning.FATAL, f"{WHERE}: {status}, 'no'; {cure}")


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert judged("later", status) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: {status}, 'later'; expected Success",
    )


def test_a_server_without_room_is_waited_for() -> None:
    assert judged("", 507) == (
        ResponseMeaning.FULL_DISK,
        f"{WHERE}: 507, nothing; expected room for a feed",
    )


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_told_and_not_followed(status: int) -> None:
    assert judged("", status, location="https://gsa.example.com:19902/xmlfeed") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: {status}, nothing; a redirect to 'https://gsa.example.com:19902/xmlfeed', "
        "which no feed follows: if that is right, give it as --to",
    )


def test_a_redirect_may_lead_nowhere() -> None:
    assert judged("", 302) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 302, nothing; a redirect to nowhere, "
        "which no feed follows: if that is right, give it as --to",
    )


def test_an_empty_answer_is_tried_again() -> None:
    assert judged("") == (ResponseMeaning.RETRY, f"{WHERE}: 200, nothing; expected Success")


def test_an_unknown_text_is_shown_in_part_and_in_one_line() -> None:
    assert judged("a\r\nb\x1b[0m" + "x" * 400) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, 'a\\r\\nb\\x1b[0m{'x' * 192}'…; expected Success: {ADDRESS}",
    )


def test_an_answer_that_is_no_text_is_shown() -> None:
    strange = ApplianceResponse(status=200, body=b"\xff\xfe\x01", where=WHERE)
    assert judge(strange).message == (
        f"{WHERE}: 200, '\ufffd\ufffd\\x01'; expected Success: {ADDRESS}"
    )


def test_an_answer_of_nobody_knows_where_has_a_place_too() -> None:
    assert judge(ApplianceResponse(status=500)).message == (
        "the appliance: 500, nothing; expected Success"
    )


@pytest.mark.parametrize("is_unsent", [False, True])
def test_a_connection_that_was_torn_is_tried_again(is_unsent: bool) -> None:
    torn = ApplianceResponse(fault="gsa: the connection was torn", is_unsent=is_unsent)
    assert judge(torn) == Verdict(
        meaning=ResponseMeaning.RETRY, message="gsa: the connection was torn"
    )


def test_a_fault_that_stays_is_not_tried_again() -> None:
    changed = ApplianceResponse(fault="feed.xml: changed on disk", is_unsent=True, is_final=True)
    assert judge(changed) == Verdict(
        meaning=ResponseMeaning.FATAL, message="feed.xml: changed on disk"
    )


def test_a_hostile_page_is_shown_at_once() -> None:
    page = "<!---->" * 3000 + "<title>" * 3000
    assert judged(page, content_type="text/html")[0] is ResponseMeaning.FATAL


# The backlog.


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("4001\n", 4001), (" 17 \r\n", 17)])
def test_a_number_is_the_backlog(text: str, number: int) -> None:
    assert count(answer(text)) == number


def test_an_appliance_that_cannot_count_says_so_by_404() -> None:
    assert count(answer("Not Found", 404)) is None


@pytest.mark.parametrize("text", ["-5", "many", "1.5", "1 2", "9" * 19, "٣"])
def test_what_is_no_number_is_shown(text: str) -> None:
    assert count(answer(text)) == f"{WHERE}: 200, '{text}'; expected a number of feeds"


def test_an_empty_count_is_told() -> None:
    assert count(answer("")) == f"{WHERE}: 200, nothing; expected a number of feeds"


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_ask_is_told_where_to_be_trusted(status: int) -> None:
    found = count(answer("Error - Unauthorized Request", status))
    assert found == (
        f"{WHERE}: {status}, 'Error - Unauthorized Request'; expected a number of feeds: {TRUST}"
    )


def test_a_number_with_a_bad_status_is_none() -> None:
    assert count(answer("17", 500)) == f"{WHERE}: 500, '17'; expected a number of feeds"


def test_a_page_is_no_number() -> None:
    assert count(answer(LOGIN)) == (
        f"{WHERE}: 200, a page that says 'Log in & go'; expected a number of feeds"
    )


def test_a_count_that_did_not_come_is_told() -> None:
    assert (
        count(ApplianceResponse(fault="gsa: no answer within 30 s")) == "gsa: no answer within 30 s"
    )
