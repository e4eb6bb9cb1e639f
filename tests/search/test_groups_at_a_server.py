"""Groups of a job in an index of a real server, and searches of users in nested groups."""

from pathlib import Path

import pytest

from support.groups_job import GroupsJob, check_nights
from support.search_servers import SearchServer

pytestmark = pytest.mark.slow


def test_users_find_exactly_what_their_groups_permit(tmp_path: Path, server: SearchServer) -> None:
    check_nights(GroupsJob(tmp_path, server.url))
