"""The user's settings of package indexes, read as pip reads them."""

from __future__ import annotations

import pytest

from buildkit.errors import RequestError
from buildkit.sources.settings import read_index_settings, redact, without_credentials


def read(tmp_path, text: str = "", **variables: str):
    file = tmp_path / "pip.conf"
    file.write_text(text)
    environment = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path / "none"),
        "PIP_CONFIG_FILE": str(file),
    }
    return read_index_settings(environment | variables)


def test_files_are_read_as_pip_reads_them(tmp_path):
    settings = read(
        tmp_path,
        "[global]\nindex-url = https://a.example/simple\ntimeout = 30\ncert = /etc/ca.pem\n"
        "[install]\nextra_index_url =\n  https://b.example/simple\n  https://c.example/simple\n"
        "find-links = wheels\ntrusted-host = a.example\n",
    )
    assert settings.index_url == "https://a.example/simple"
    assert settings.extra_index_urls == ("https://b.example/simple", "https://c.example/simple")
    assert settings.timeout_seconds == 30
    assert settings.cert == "/etc/ca.pem"
    assert settings.trusted_hosts == ("a.example",)
    assert settings.find_links[0].startswith("/")


def test_a_variable_wins_over_a_file_and_install_over_global(tmp_path):
    text = "[global]\nindex-url = https://a.example\n[install]\nindex-url = https://b.example\n"
    assert read(tmp_path, text).index_url == "https://b.example"
    settings = read(tmp_path, text, PIP_INDEX_URL="https://c.example", PIP_NO_INDEX="1")
    assert (settings.index_url, settings.no_index) == ("https://c.example", True)


def test_dev_null_means_no_file(tmp_path):
    settings = read(
        tmp_path, "[global]\nindex-url = https://a.example\n", PIP_CONFIG_FILE="/dev/null"
    )
    assert settings.index_url is None


@pytest.mark.parametrize(
    ("text", "told"),
    [("index-url = x", "cannot be read"), ("[global]\ntimeout = soon\n", "number of seconds")],
)
def test_a_broken_configuration_is_named(tmp_path, text, told):
    with pytest.raises(RequestError, match=told) as caught:
        read(tmp_path, text)
    assert "pip.conf" in str(caught.value)


def test_credentials_do_not_show():
    assert redact("at https://u:p@h/x?y") == "at https://***@h/x?y"
    assert without_credentials("https://u:p@h:1/x?token=t#f") == "https://h:1/x"
