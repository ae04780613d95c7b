"""The commands that make nothing, in this process: output, JSON and exit status."""

from __future__ import annotations

import json

import pytest

from buildkit.cli.app import COMMANDS, run
from tests.wheels.toy import a_wheel, rewritten

RECIPE = """\
name = "toy"
summary = "A toy."
default-version = "1.0"
architectures = ["sm120"]

[[versions]]
version = "1.0"
source = { kind = "pypi" }
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("BUILDKIT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BUILDKIT_RECIPES", raising=False)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "toy.toml").write_text(RECIPE)
    return tmp_path / "recipes"


def test_list_names_what_is_not_pinned(folder, capsys):
    assert run(["list", "--recipes", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "toy            1.0           A toy.  (not pinned)" in out
    assert "demo-kernel" in out
    assert run(["list", "--recipes", str(folder), "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["toy"]["pinned"] is False
    assert rows["demo-kernel"]["pinned"] is True


def test_one_broken_recipe_does_not_hide_the_others(folder, capsys):
    (folder / "toy.toml").write_text("name = [")
    assert run(["list", "--recipes", str(folder)]) == 0
    captured = capsys.readouterr()
    assert "demo-kernel" in captured.out
    assert "Not valid TOML" in captured.err


def test_show_tells_what_a_recipe_says(folder, capsys):
    assert run(["show", "toy", "--recipes", str(folder)]) == 0
    assert "1.0 (default): pypi" in capsys.readouterr().out
    assert run(["show", "demo-kernel", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["default-version"] == "1.0.0"


def test_lint_has_status_2_for_errors_alone(folder, capsys):
    assert run(["lint", "toy", "--recipes", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "toy.toml:8 (versions[0].source.sha256): warning: Not pinned yet." in out
    (folder / "toy.toml").write_text(RECIPE.replace("sm120", "sm12"))
    assert run(["lint", "toy", "--recipes", str(folder)]) == 2
    assert "1 recipe, 1 error" in capsys.readouterr().out
    assert run(["lint", "toy", "--recipes", str(folder), "--json"]) == 2
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["line"] for finding in findings if finding["level"] == "error"] == [4]


def test_schema_is_json(capsys):
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Recipe"


def test_show_wheel(tmp_path, capsys):
    provenance = (
        b'{"recipe": "toy", "tools": {"nvcc": {"version": "13"}}, "key_fields": [["kit", "0.1.0"]]}'
    )
    wheel = rewritten(tmp_path, provenance=provenance)
    assert run(["show-wheel", str(wheel)]) == 0
    shown = capsys.readouterr().out
    assert "recipe         toy" in shown
    assert "key_fields\n  kit            0.1.0\n" in shown
    assert run(["show-wheel", str(wheel), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "toy"
    assert run(["show-wheel", str(a_wheel(tmp_path))]) == 1
    assert "did not make it" in capsys.readouterr().err
    assert run(["show-wheel", str(tmp_path / "none.whl"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["slug"] == "verify"


@pytest.mark.network
def test_verify_lists_any_wheel_and_its_status_tells_whether_it_serves(folder, tmp_path, capsys):
    plain = a_wheel(tmp_path)
    assert run(["verify", str(plain)]) == 0
    assert "no library holds GPU code" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "none.whl")]) == 1
    assert run(["verify", str(plain), "--arch", "sm12"]) == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_teaches_by_its_help(name, capsys):
    assert run([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"Usage: buildkit {name}" in out
    assert "Example: buildkit" in out


def test_the_help_lists_every_command_and_the_statuses(capsys):
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "130 interrupted" in " ".join(out.split())
    for name in COMMANDS:
        assert name in out


def test_without_arguments_there_is_help(capsys):
    assert run([]) in (0, 2)
    captured = capsys.readouterr()
    assert "Usage: buildkit" in captured.out + captured.err


def test_wrong_options_have_status_2(capsys):
    assert run(["list", "--nonsense"]) == 2
    assert run(["nonsense"]) == 2
    assert "Run `buildkit --help`" in capsys.readouterr().err
