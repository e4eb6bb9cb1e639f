"""The meaning of a Thunderstone appliance's responses."""

import pytest

from schemas.receipt import Refusal
from transforms.sinks.push.model import ApplianceResponse, ResponseMeaning, Verdict
from transforms.sinks.push.wire.recvdata import RECVDATA
from transforms.sinks.push.wire.responses import judge_response

URL = "http://www.example.com/texis/dowalk/recvdata.xml"
CLUSTER = (
    "add the address of this machine, and those of all proxies between, to Cluster Members "
    "of the appliance"
)
ADDRESS = "check --to: expected the address of the admin interface, followed by /recvdata.xml"
NO_RESULT = f"expected a ThunderstoneReplicationResult: {ADDRESS}"
OK = "<ItemResult><rid>0</rid><Type>I</Type><Status>OK</Status></ItemResult>"
NOT_FOUND = "accepted with the remark 'Not found'"
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
RETRY, FATAL = ResponseMeaning.RETRY, ResponseMeaning.FATAL


def result(*inside: str, rows: int | str | None = None) -> str:
    count = "" if rows is None else f"<Rows>{rows}</Rows>"
    return (
        f"<ThunderstoneReplicationResult>{''.join(inside)}{count}</ThunderstoneReplicationResult>"
    )


def response(text: str, status: int = 200, **fields: object) -> ApplianceResponse:
    stated: dict[str, object] = {"url": URL, "content_type": "text/xml", **fields}
    return ApplianceResponse(status=status, body=text.encode(), **stated)  # type: ignore[arg-type]


def judge(received: ApplianceResponse, *, sent: int) -> Verdict:
    return judge_response(RECVDATA, received, sent)


def test_the_response_of_the_manual_is_acceptance_with_a_remark() -> None:
    assert judge(response(MANUAL), sent=1) == Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message="OK for 1 of 1 Items",
        notices=(NOT_FOUND,),
    )


@pytest.mark.parametrize(
    ("text", "sent", "message"),
    [
        (result(OK, OK, rows=2), 2, "OK for 2 of 2 Items"),
        (result(OK, OK), 0, "OK for 2 of 2 Items"),
        (result(OK, OK, rows="x"), 2, "OK for 2 of 2 Items"),
        (result(OK.replace("OK", "\n ok "), rows=1), 1, "OK for 1 of 1 Items"),
        (
            result(OK, rows=1).replace("Result>", 'Result xmlns="urn:x">', 1),
            1,
            "OK for 1 of 1 Items",
        ),
        ('\r\n<?xml version="1.0"?>' + result(OK, rows=1), 1, "OK for 1 of 1 Items"),
        ("<!DOCTYPE x><!-- by a script -->" + result(OK, rows=1), 1, "OK for 1 of 1 Items"),
        (result(OK, rows=0), 1, "OK for 1 of 1 Items"),
        (result("<Status>OK</Status>", rows=3), 3, "OK"),
    ],
)
def test_ok_for_each_item_is_acceptance(text: str, sent: int, message: str) -> None:
    assert judge(response(text), sent=sent) == Verdict(
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
    assert judge(response(result(*items, rows=count)), sent=count) == Verdict(
        meaning=ResponseMeaning.ACCEPTED,
        message=f"OK for {count - len(refused)} of {count} Items",
        refused=refused,
    )


@pytest.mark.parametrize(
    ("text", "sent", "message"),
    [
        (
            result(FAIL, FAIL, rows=2),
            2,
            "2 of 2 Items: FAIL, 'no room'; expected OK: it does not say why; see its own log",
        ),
        (
            result(UNKNOWN, rows=1),
            1,
            "1 of 1 Items: FAIL_UNKNOWNTYPE; expected OK: it does not know the Type of an Item",
        ),
        (
            result(OK, FAIL, rows=2),
            0,
            "1 of 2 Items: FAIL, 'no room'; expected OK: it does not say why; see its own log",
        ),
        (result(OK, OK, rows=2), 3, "results of 2 Items and Rows 2; expected 3"),
        (result(OK, OK, OK, rows=2), 3, "results of 3 Items and Rows 2; expected 3"),
        (result(OK, OK), 1, "results of 2 Items; expected 1"),
        (result(rows=0), 1, "results of 0 Items and Rows 0; expected 1"),
        (result(), 0, "results of 0 Items; expected some"),
        (
            result("<x><Status>NODATA</Status></x>", rows=0),
            5,
            "NODATA; expected OK: it found no Item that it could read; `feedferry inspect` may "
            "show why",
        ),
        (
            result(OK.replace("OK", "NODATA"), rows=0),
            5,
            "results of 1 Items and Rows 0; expected 5",
        ),
        (
            result("<Status>FAIL</Status><Info>try later</Info>"),
            5,
            "FAIL, 'try later'; expected OK: it does not say why; see its own log",
        ),
        (
            f"<ThunderstoneReplicationResult>{OK}<Version>" + "x" * (16 << 20),
            2,
            "results longer than 16777216 bytes; expected fewer: a part of the Items will have "
            "them",
        ),
    ],
)
def test_numbers_that_disagree_and_failures_are_refusals(
    text: str, sent: int, message: str
) -> None:
    verdict = judge(response(text[: 16 << 20]), sent=sent)

    assert verdict == Verdict(meaning=ResponseMeaning.REFUSED, message=f"{URL}: {message}")


@pytest.mark.parametrize(
    ("text", "status", "meaning", "message"),
    [
        (
            result("<Status>Not Allowed</Status>"),
            200,
            FATAL,
            f"Not Allowed; expected OK: {CLUSTER}",
        ),
        (
            result("<ItemResult><Status>not allowed</Status></ItemResult>"),
            403,
            FATAL,
            f"not allowed; expected OK: {CLUSTER}",
        ),
        (
            result("<Status>No Profile</Status>"),
            200,
            FATAL,
            "No Profile; expected OK: check that --profile is the name of a profile there",
        ),
        (result(OK, rows=5), 503, RETRY, f"503, '{result(OK, rows=5)}'; expected a "),
        (
            "<ThunderstoneReplicationResult><Rows>",
            200,
            RETRY,
            "'<ThunderstoneReplicationResult><Rows>'; expected complete XML",
        ),
        (
            "<html><b>configured to deny administration\nfrom your location (IP)</b></html>",
            403,
            FATAL,
            "403, a page with 'configured to deny administration from your location (IP)'; "
            "expected dataload to be allowed: add the address of this machine to Admin Access IPs",
        ),
        (
            "<html>not from your location via a non-secure protocol (HTTP)</html>",
            200,
            FATAL,
            "200, a page with 'not from your location via a non-secure protocol (HTTP)'; expected "
            "TLS: give --to with https://",
        ),
        (
            "<html><title>Texis</title></html>",
            200,
            FATAL,
            f"200, a page with the title 'Texis'; {NO_RESULT}",
        ),
        (
            "<other><Status>OK</Status></other>",
            200,
            FATAL,
            f"200, '<other><Status>OK</Status></other>'; {NO_RESULT}",
        ),
        ("Success", 200, FATAL, f"200, 'Success'; {NO_RESULT}"),
        ("no", 404, FATAL, f"404, 'no'; expected feeds to be accepted there: {ADDRESS}"),
        (
            "Script timeout",
            500,
            RETRY,
            "500, 'Script timeout'; expected a ThunderstoneReplicationResult",
        ),
    ],
)
def test_other_responses_are_judged_with_a_fix(
    text: str, status: int, meaning: ResponseMeaning, message: str
) -> None:
    verdict = judge(response(text, status), sent=5)

    assert verdict.meaning is meaning
    assert verdict.message.startswith(f"{URL}: {message}")


def test_ok_before_the_end_of_the_request_is_no_acceptance() -> None:
    verdict = judge(response(result(OK), is_unsent=True, sent_bytes=17), sent=1)

    assert verdict.meaning is RETRY
    assert verdict.message.endswith("after 17 bytes; expected the whole feed to be read first")


def test_entities_are_not_expanded(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("secret") / "ok"
    path.write_text("OK")
    for entity in ('"OK"', f'SYSTEM "{path.as_uri()}"'):
        item = result("<ItemResult><Status>&a;</Status></ItemResult>", rows=1)
        text = f"<!DOCTYPE r [<!ENTITY a {entity}>]>{item}"

        assert judge(response(text), sent=1).meaning is ResponseMeaning.REFUSED
