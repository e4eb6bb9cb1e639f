"""Feeds whose records vary are converted without a loss of speed, and to the same bytes."""

import logging
from collections.abc import Sequence

import pytest

from support.batches import SIZES, conversion
from support.varied_feeds import feed
from transforms.formats.gsa.fast_reader import RecordTemplate
from transforms.formats.xml import run_shapes
from transforms.formats.xml.run_shapes import ShapeKey
from transforms.rules.adapt import Target

GSA_FEED = Target(format="gsa-feed")
METADATA = '<metadata><meta name="a" content="{}"/></metadata>'


def record(number: int, inner: str = "", attributes: str = "") -> str:
    url = f"http://www.example.com/{number}"
    return f'<record url="{url}" mimetype="text/html"{attributes}>{inner}</record>\n'


def test_a_shape_that_is_met_once_is_learned_within_a_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    learned: list[str] = []
    sample = RecordTemplate.sample

    def note(template: RecordTemplate, key: ShapeKey, texts: Sequence[str]) -> str:
        learned.append(template.markup)
        return sample(template, key, texts)

    monkeypatch.setattr(RecordTemplate, "sample", note)
    records = [record(n, METADATA.format(n).replace('"a"', f'"a{n}"')) for n in range(2000)]
    conversion(feed("".join(records)), GSA_FEED, batch_records=1024)
    assert 0 < len(learned) <= run_shapes._FREE_SHAPES


@pytest.mark.parametrize("size", [0, *SIZES])
@pytest.mark.parametrize("attribute", ["", " x='a=\"b\"'", ' x="a/b"', "/"])
def test_elements_that_close_themselves_are_in_the_batch_of_their_neighbours(
    attribute: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    deletion = '<record url="http://www.example.com/{}" action="delete" mimetype="text/html"{}/>\n'
    records = [
        record(n, METADATA.format(n)) if n % 5 else deletion.format(n, attribute)
        for n in range(100)
    ]
    data = feed("".join(records))
    caplog.set_level(logging.DEBUG, "transforms.convert")
    assert conversion(data, GSA_FEED, batch_records=size) == conversion(
        data, GSA_FEED, batch_records=0
    )
    if size == 7 and attribute != "/":
        assert ": 93 of 100 records by a plan, in 14 batches" in caplog.text


@pytest.mark.parametrize("size", [0, *SIZES])
@pytest.mark.parametrize(
    "name", ["staff", "", 'a"b', "a &amp; b", "&foo;", " staff ", "~hole-0001~"]
)
def test_an_acl_that_all_records_share_is_a_constant(
    name: str, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    acl = f'<acl><principal scope="group" access="permit">{name}</principal></acl>'
    data = feed("".join(record(n, acl + METADATA.format(n)) for n in range(50)))
    caplog.set_level(logging.DEBUG, "transforms.convert")
    assert conversion(data, GSA_FEED, batch_records=size) == conversion(
        data, GSA_FEED, batch_records=0
    )
    if size == 7 and name in ("staff", "a &amp; b"):
        assert ": 43 of 50 records by a plan, in 7 batches" in caplog.text
