"""What the answers of a Thunderstone appliance to dataload mean."""

import pytest

from schemas.receipt import Refusal
from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.wire.thunderstone_responses import judge

WHERE = "http://search.example.com/texis/dowalk/recvdata.xml"
CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
ADDRESS = "check --to: it is the address of the admin interface with /recvdata.xml behind it"
OK = "<ItemResult><rid>0</rid><Type>I</Type><Status>OK</Status></ItemResult>"
GONE = "<ItemResult><Type>D</Type><Status>OK</Status><Info>Not found</Info></ItemResult>"
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
    shown = "" if rows is None else f"<Rows>{rows}</Rows>"
    inner = "".join(inside) + shown
    return f"<ThunderstoneReplicationResult>{inner}</ThunderstoneReplicationResult>"


def answer(text: str, status: int = 200, **fields: object) -> ApplianceResponse:
    stated: dict[str, object] = {"where": WHERE, "content_type": "text/xml", **fields}
    return ApplianceResponse(status=status, body=text.encode(), **stated)  # type: ignore[arg-type]  # fields


def judged(
    text: str, sent: int = 1, status: int = 200, **fields: object
) -> tuple[ResponseMeaning, str]:
    verdict = judge(answer(text, status, **fields), sent=sent)
    assert not verdict.can_split
    return verdict.meaning, verdict.message


def refused(text: str, sent: int) -> str:
    """The words of a refusal of what may be taken in parts."""
    verdict = judge(answer(text), sent=sent)
    assert (verdict.meaning, verdict.can_split) == (ResponseMeaning.REFUSED, True)
    return verdict.message


def test_the_answer_of_the_manual_is_acceptance_with_a_remark() -> None:
    assert judge(answer(MANUAL), sent=1) == Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message="OK for 1 of 1 Items",
        notices=("OK, 'Not found'",),
    )


@pytest.mark.parametrize("rows", [2, None, "x"])
@pytest.mark.parametrize("sent", [2, 0])
def test_ok_for_each_item_is_acceptance(rows: int | str | None, sent: int) -> None:
    assert judged(result(OK, OK, rows=rows), sent) == (
        ResponseMeaning.ACCEPTED,
        "OK for 2 of 2 Items",
    )


def test_a_status_may_have_space_around_it_and_any_case() -> None:
    assert judged(result(OK.replace("OK", "\n ok "), rows=1)) == (
        ResponseMeaning.ACCEPTED,
        "OK for 1 of 1 Items",
    )


def test_a_namespace_makes_no_difference() -> None:
    text = result(OK, rows=1).replace("Result>", 'Result xmlns="urn:x">', 1)
    assert judged(text)[0] is ResponseMeaning.ACCEPTED


def test_a_declaration_may_stand_behind_a_blank_line() -> None:
    text = '\r\n<?xml version="1.0" encoding="ISO-8859-1"?>' + result(OK, rows=1)
    assert judged(text)[0] is ResponseMeaning.ACCEPTED


def test_an_item_alone_may_count_no_rows() -> None:
    assert judged(result(OK, rows=0))[0] is ResponseMeaning.ACCEPTED


def test_a_status_for_all_is_acceptance_if_the_rows_are_those_sent() -> None:
    assert judged(result("<Status>OK</Status>", rows=3), 3) == (ResponseMeaning.ACCEPTED, "OK")


def test_each_remark_is_told_as_often_as_it_was_made() -> None:
    other = GONE.replace("Not found", "Title is empty")
    verdict = judge(answer(result(GONE, OK, other, GONE, rows=4)), sent=4)
    assert verdict.notices == ("OK, 'Not found'", "OK, 'Title is empty'", "OK, 'Not found'")


def test_few_remarks_are_told_apart() -> None:
    remarks = [GONE.replace("Not found", f"remark {number}") for number in range(22)]
    verdict = judge(answer(result(*remarks, rows=22)), sent=22)
    assert verdict.notices[19:] == (
        "OK, 'remark 19'",
        "OK, with another remark",
        "OK, with another remark",
    )


def test_items_that_fail_among_others_are_named() -> None:
    verdict = judge(answer(result(OK, FAIL, OK, UNKNOWN, rows=4)), sent=4)
    assert verdict == Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message="OK for 2 of 4 Items",
        refused=(Refusal(1, "FAIL, 'no room'"), Refusal(3, "FAIL_UNKNOWNTYPE")),
    )


def test_an_unknown_status_is_no_ok() -> None:
    strange = OK.replace("OK", "FAIL\x85 later")
    verdict = judge(answer(result(OK, strange, rows=2)), sent=2)
    assert verdict.refused == (Refusal(1, "'FAIL\\x85 later'"),)


def test_an_item_without_a_status_is_not_taken() -> None:
    verdict = judge(answer(result(OK, "<ItemResult/>", rows=2)), sent=2)
    assert verdict.refused == (Refusal(1, "''"),)


def test_a_chunk_of_which_nothing_is_taken_is_refused() -> None:
    assert refused(result(FAIL, FAIL, rows=2), 2) == (
        f"{WHERE}: 2 of 2 Items: FAIL, 'no room'; expected OK: it does not say why; its own log may"
    )


def test_an_item_that_fails_alone_is_refused() -> None:
    assert refused(result(UNKNOWN, rows=1), 1) == (
        f"{WHERE}: 1 of 1 Items: FAIL_UNKNOWNTYPE; "
        "expected OK: it does not know the Type of an Item"
    )


def test_items_that_cannot_be_told_apart_are_refused_together() -> None:
    assert refused(result(OK, FAIL, rows=2), 0) == (
        f"{WHERE}: 1 of 2 Items: FAIL, 'no room'; expected OK: it does not say why; its own log may"
    )


def test_fewer_results_than_items_are_a_refusal() -> None:
    assert refused(result(OK, OK, rows=2), 3) == (
        f"{WHERE}: results of 2 Items and Rows 2; expected 3"
    )


def test_fewer_rows_than_items_are_a_refusal() -> None:
    assert refused(result(OK, OK, OK, rows=2), 3) == (
        f"{WHERE}: results of 3 Items and Rows 2; expected 3"
    )


def test_more_results_than_items_are_a_refusal() -> None:
    assert refused(result(OK, OK), 1) == f"{WHERE}: results of 2 Items; expected 1"


@pytest.mark.parametrize("sent", [1, 3])
def test_no_results_are_a_refusal(sent: int) -> None:
    assert refused(result(rows=0), sent) == (
        f"{WHERE}: results of 0 Items and Rows 0; expected {sent}"
    )


def test_no_results_of_a_number_that_is_not_known_are_a_refusal() -> None:
    assert refused(result(), 0) == f"{WHERE}: results of 0 Items; expected some"


@pytest.mark.parametrize("status", ["<Status>NODATA</Status>", "<x><Status>NODATA</Status></x>"])
def test_what_it_cannot_read_is_a_refusal(status: str) -> None:
    assert refused(result(status, rows=0), 5) == (
        f"{WHERE}: NODATA; expected OK: "
        "it found no Item that it could read; `feedferry inspect` may tell why"
    )


def test_what_it_cannot_read_may_be_told_as_an_item() -> None:
    nodata = OK.replace("OK", "NODATA")
    assert refused(result(nodata, rows=0), 5) == (
        f"{WHERE}: results of 1 Items and Rows 0; expected 5"
    )


def test_a_failure_of_all_has_its_remark() -> None:
    assert refused(result("<Status>FAIL</Status><Info>try later</Info>"), 5) == (
        f"{WHERE}: FAIL, 'try later'; expected OK: it does not say why; its own log may"
    )


@pytest.mark.parametrize(
    "inside",
    ["<Status>Not Allowed</Status>", "<ItemResult><Status>not allowed</Status></ItemResult>"],
)
@pytest.mark.parametrize("status", [200, 403])
def test_who_is_no_cluster_member_is_told_to_be_one(inside: str, status: int) -> None:
    meaning, message = judged(result(inside), 5, status)
    assert (meaning, message.lower()) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: Not Allowed; expected OK: {CLUSTER}".lower(),
    )


def test_an_unknown_profile_is_told() -> None:
    assert judged(result("<Status>No Profile</Status>"), 5) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: No Profile; expected OK: check that --profile is the name of a profile there",
    )


def test_ok_with_a_bad_status_is_none() -> None:
    assert judged(result(OK, rows=1), 1, 503)[0] is ResponseMeaning.RETRY


def test_ok_before_the_items_were_sent_is_none() -> None:
    meaning, message = judged(result(OK), 1, is_unsent=True, sent_bytes=17)
    assert (meaning, message) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: '{result(OK)}' after 17 bytes; expected the whole feed to be read first",
    )


def test_an_answer_that_breaks_off_is_tried_again() -> None:
    assert judged("<ThunderstoneReplicationResult><Rows>", 1) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: '<ThunderstoneReplicationResult><Rows>'; expected it to end as XML",
    )


def test_an_answer_that_is_too_long_is_a_refusal() -> None:
    text = f"<ThunderstoneReplicationResult>{OK}<Version>"
    assert refused(text + "x" * ((16 << 20) - len(text)), 2) == (
        f"{WHERE}: results longer than 16777216 bytes; "
        "expected fewer: a part of the Items will have"
    )


def test_a_comment_or_doctype_may_stand_before_it() -> None:
    text = "<!DOCTYPE x><!-- by a script -->" + result(OK, rows=1)
    assert judged(text)[0] is ResponseMeaning.ACCEPTED


def test_a_status_may_stand_deeper_in_an_item() -> None:
    text = result("<ItemResult><x><Status>FAIL</Status></x></ItemResult>", OK, rows=2)
    assert judge(answer(text), sent=2).refused == (Refusal(0, "FAIL"),)


def test_entities_are_not_expanded() -> None:
    text = '<!DOCTYPE r [<!ENTITY a "OK"><!ENTITY b "&a;&a;">]>' + result(
        "<ItemResult><Status>&b;</Status></ItemResult>", rows=1
    )
    assert judge(answer(text), sent=1).meaning is ResponseMeaning.REFUSED


def test_files_are_not_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("secret") / "ok"
    path.write_text("OK")
    text = f'<!DOCTYPE r [<!ENTITY a SYSTEM "{path.as_uri()}">]>' + result(
        "<ItemResult><Status>&a;</Status></ItemResult>", rows=1
    )
    assert judge(answer(text), sent=1).meaning is ResponseMeaning.REFUSED


@pytest.mark.parametrize("status", [200, 403])
def test_an_address_that_may_not_administer_is_told(status: int) -> None:
    page = (
        "<html><body><b>The Appliance has been configured to deny administration\n"
        "from your location (IP)</b></body></html>"
    )
    assert judged(page, 1, status) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: {status}, a page that says "
        "'The Appliance has been configured to deny administration from your location (IP)'; "
        "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
    )


def test_an_appliance_that_wants_tls_is_told() -> None:
    page = (
        "<html>The Appliance may not be administered from your location via a non-secure protocol"
        " (HTTP). You will be redirected momentarily to HTTPS</html>"
    )
    assert judged(page) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, a page that says 'The Appliance may not be administered from your location "
        "via a non-secure protocol (HTTP). You will be redirected momentarily to HTTPS'; "
        "expected TLS to be used: give --to with https://",
    )


def test_another_page_is_shown() -> None:
    assert judged("<html><title>Texis</title></html>") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, a page that says 'Texis'; "
        f"expected a ThunderstoneReplicationResult: {ADDRESS}",
    )


def test_other_xml_is_shown() -> None:
    assert judged("<other><Status>OK</Status></other>") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, '<other><Status>OK</Status></other>'; "
        f"expected a ThunderstoneReplicationResult: {ADDRESS}",
    )


def test_success_of_another_appliance_is_none() -> None:
    assert judged("Success") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 200, 'Success'; expected a ThunderstoneReplicationResult: {ADDRESS}",
    )


def test_a_path_that_is_not_there_is_told() -> None:
    assert judged("Not Found", 1, 404) == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 404, 'Not Found'; expected feeds to be taken there: {ADDRESS}",
    )


def test_a_server_in_trouble_is_tried_again() -> None:
    assert judged("Script timeout", 1, 500) == (
        ResponseMeaning.RETRY,
        f"{WHERE}: 500, 'Script timeout'; expected a ThunderstoneReplicationResult",
    )


def test_a_redirect_is_told_and_not_followed() -> None:
    assert judged("", 1, 302, location="https://search.example.com/") == (
        ResponseMeaning.FATAL,
        f"{WHERE}: 302, nothing; a redirect to 'https://search.example.com/', "
        "which no feed follows: if that is right, give it as --to",
    )


def test_a_connection_that_was_torn_is_tried_again() -> None:
    torn = ApplianceResponse(fault="search: the connection was torn before the answer")
    assert judge(torn, sent=3) == Verdict(
        meaning=ResponseMeaning.RETRY, message="search: the connection was torn before the answer"
    )
