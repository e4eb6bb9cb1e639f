"""The headings of the help texts. `feedferry --help` loads nothing but this and click."""

import enum


class Section(enum.Enum):
    """Headings of the help texts, in the order of the help."""

    CHECK = "Checks"
    READ = "Input"
    TREE = "Trees of files"
    SPOOL = "Spools of a receiver"
    STATE = "Incremental runs"
    STREAM = "Command streams and programs"
    WRITE = "Output"
    RECEIVER = "Receiver"
    GATEWAY = "Gateway"
    PUSH = "Pushed feeds"
    APPLIANCE = "Appliance"
    SCHEDULE = "Throttling and schedule"
    RUN = "Run"
    DISPLAY = "Display"
