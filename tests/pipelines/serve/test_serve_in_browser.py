"""What somebody sees in a browser, on a phone, of a receiver that was pushed to."""

import pytest

from support.browser import browser, needs_chromium
from support.runs import ROOT
from support.served import run, serving

pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int, list[str]]:
    """The text of the page, its width at 360 px, and what the browser complained of."""
    folder = tmp_path_factory.mktemp("served")
    out, sample = folder / "out", ROOT / "pipelines" / "sample"
    with serving(folder / "spool") as appliance, browser(folder / "browser") as opened:
        run(
            *("convert", str(sample), "-o", str(out), "--to", "gsa-feed", "-q"),
            *("--push-to", appliance.url),
        )
        appliance.settle()
        with opened.page() as page:
            page.set_device(360, mobile=True)
            page.open(appliance.url)
            text = page.evaluate("document.body.innerText")
            width = page.evaluate("document.documentElement.scrollWidth")
            return text, width, page.complaints


@pytest.mark.parametrize("name", ["intranet", "people", "wiki", "Completed"])
def test_each_datasource_is_on_the_page_with_its_status(
    shown: tuple[str, int, list[str]], name: str
) -> None:
    assert name in shown[0]


def test_it_does_not_scroll_sideways_on_a_phone(shown: tuple[str, int, list[str]]) -> None:
    assert shown[1] <= 360


def test_the_browser_has_nothing_to_complain_of(shown: tuple[str, int, list[str]]) -> None:
    assert shown[2] == []
