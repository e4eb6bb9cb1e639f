import pytest

from schemas.spelling import did_you_mean


@pytest.mark.parametrize("word", ["gsa-fed", "GSA_FEED", "gsafeed"])
def test_a_name_that_is_near_is_asked_for(word: str) -> None:
    assert did_you_mean(word, ("avro", "gsa-feed")) == "; did you mean 'gsa-feed'?"


def test_a_name_is_asked_for_as_it_is_written() -> None:
    assert did_you_mean("page-urls", ("Page_URL",)) == "; did you mean 'Page_URL'?"


def test_what_is_no_text_may_be_near_a_name_too() -> None:
    assert did_you_mean(2010, ("2010s",)) == "; did you mean '2010s'?"


def test_nothing_is_asked_for_where_nothing_is_near() -> None:
    assert did_you_mean("yaml", ("text", "json")) == ""
