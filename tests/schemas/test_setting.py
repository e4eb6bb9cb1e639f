"""Settings in messages."""

import pickle
import re

import pytest

from feedferry.pipelines.options.own_options import own_flags
from feedferry.schemas.errors import ConfigError, RecordError, errors_worded
from feedferry.schemas.setting import Setting, as_flag, in_flags, in_parameters, settings_in
from support.reference import all_commands
from support.runs import ROOT

TEXT = "⟦state⟧ x: lost; ⟦accept_loss acl⟧ goes on"


def test_a_message_names_flags_or_parameters() -> None:
    assert in_flags(TEXT) == "--state x: lost; --accept-loss acl goes on"
    assert in_parameters(TEXT) == "state x: lost; accept_loss='acl' goes on"
    assert settings_in(TEXT) == ["state", "accept_loss"]


def test_text_in_the_same_brackets_is_no_setting() -> None:
    assert in_flags("'⟦1⟧', ⟦⟧") == "'⟦1⟧', ⟦⟧"


def test_an_error_names_flags_until_its_surface_words_it() -> None:
    error = pickle.loads(pickle.dumps(ConfigError(TEXT)))
    assert (str(error), error.text) == (in_flags(TEXT), TEXT)
    with pytest.raises(ConfigError) as caught, errors_worded(in_parameters):
        raise error
    assert str(caught.value) == in_parameters(TEXT)


def test_the_reason_of_a_reject_names_flags() -> None:
    assert RecordError("large", "raise ⟦max_content_bytes⟧").reason == "raise --max-content-bytes"


def test_each_setting_in_a_message_is_a_flag_or_an_argument_of_a_command() -> None:
    flags = {f"--set {flag.key}" for flag in own_flags().values()}
    flags |= {
        name
        for _, context in all_commands()
        for parameter in context.command.get_params(context)
        for name in (*parameter.opts, *parameter.secondary_opts, parameter.human_readable_name)
    }
    packages = ("schemas", "transforms", "pipelines")
    paths = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    marks = re.compile(r"⟦([a-z_]+)[ ⟧]")
    names = {name for path in paths for name in marks.findall(path.read_text("utf-8"))}
    assert len(names) > 50
    assert sorted(name for name in names if as_flag(Setting(name)) not in flags) == ["inputs"]
    assert as_flag(Setting("inputs")) == "INPUT"
