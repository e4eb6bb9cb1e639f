"""The fast tests that `feedferry.testing` has for formats, of all our formats."""

from feedferry.testing import FormatExamples
from kits import KITS


class TestFormats(FormatExamples):
    kits = tuple(KITS.values())
