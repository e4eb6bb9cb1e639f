"""Which rejects of a run are meant, and each of them as JSON."""

import json
from pathlib import Path

import pytest

from feedferry.pipelines.rejects.run_rejects import RejectFilter, RunReject, as_json_line
from feedferry.schemas.reject import Reject

REJECT = Reject(code="malformed", reason="x", stage="read", source="a.xml", url="http://h/a")


@pytest.mark.parametrize(
    ("chosen", "is_taken"),
    [
        (RejectFilter(), True),
        (RejectFilter(codes=("malformed",)), True),
        (RejectFilter(codes=("bad-action",)), False),
        (RejectFilter(url="http://h/*"), True),
        (RejectFilter(url="http://h/b"), False),
        (RejectFilter(source="*.xml"), True),
        (RejectFilter(source="*.csv"), False),
        (RejectFilter(codes=("malformed",), url="http://h/*", source="b.xml"), False),
    ],
)
def test_a_filter_takes_what_fits_all_of_its_fields(
    chosen: RejectFilter, *, is_taken: bool
) -> None:
    assert chosen.takes(REJECT) is is_taken


def test_a_reject_is_one_line_of_json_without_its_bytes() -> None:
    values = json.loads(as_json_line(RunReject(Path("out"), 3, REJECT, replayed_in="out-replay-1")))
    assert (values["run"], values["number"], values["code"]) == ("out", 3, "malformed")
    assert (values["is_accepted"], values["replayed_in"]) == (False, "out-replay-1")
    assert "data" not in values
