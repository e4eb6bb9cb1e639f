"""A gateway to an index that is killed loses nothing, and shows no document to a wrong user."""

from pathlib import Path

import pytest

from support.gateway_storm import GatewayStorm
from support.ports import kept_port
from support.served import serving

pytestmark = pytest.mark.slow


def test_killed_five_times_it_shows_what_the_feeds_permit(tmp_path: Path) -> None:
    with serving(tmp_path / "new", "-q") as target, kept_port() as port:
        storm = GatewayStorm(tmp_path, f"{target.url}/intranet", port, seed=37, feeds=80)
        storm.run(kills=5)
        assert storm.violations == []
        assert storm.searches > 10
        assert storm.seen() == storm.feeds.visible[-1]
