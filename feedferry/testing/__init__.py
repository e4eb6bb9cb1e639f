"""Tests of formats, sources and appliances, which other packages use with pytest.

A description of the object, its kit, makes the tests::

    from feedferry.testing import FormatKit, FormatTests

    class TestAcme(FormatTests):
        kits = (FormatKit(format=ACME, reads_record="acme_feeds.acme:read_record"),)

The tests start nothing but servers on loopback, and do not depend on the clock. They need the
extra `feedferry[testing]`. docs/extend.md has an example of each.
"""

import pytest

pytest.register_assert_rewrite(
    "feedferry.testing.appliance_tests",
    "feedferry.testing.format_tests",
    "feedferry.testing.source_tests",
)

from feedferry.testing.appliance_kit import ApplianceKit
from feedferry.testing.appliance_tests import ApplianceTests
from feedferry.testing.format_kit import HOST, MARK, FormatKit, words
from feedferry.testing.format_tests import FormatExamples, FormatProperties, FormatTests
from feedferry.testing.protection import ComparedPrincipal, Protection
from feedferry.testing.scripted_server import ScriptedReply, ScriptedRequest, scripted_server
from feedferry.testing.source_kit import SourceKit
from feedferry.testing.source_tests import SourceTests

__all__ = [
    "HOST",
    "MARK",
    "ApplianceKit",
    "ApplianceTests",
    "ComparedPrincipal",
    "FormatExamples",
    "FormatKit",
    "FormatProperties",
    "FormatTests",
    "Protection",
    "ScriptedReply",
    "ScriptedRequest",
    "SourceKit",
    "SourceTests",
    "scripted_server",
    "words",
]
