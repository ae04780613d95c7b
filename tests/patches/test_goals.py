"""Goals: what each kind proves of a text or a module."""

from __future__ import annotations

import ast

import pytest

from buildkit.errors import PatchError
from buildkit.patches.apply import Draft, apply_one
from buildkit.patches.goals import is_reached, parse_goal
from buildkit.patches.load import choose_variant, files_of, load_patch
from buildkit.patches.select import known_patches, select_patches
from buildkit.values import AlreadyUpstream, Applied

CODE = """\
class Config:
    supported: tuple = ("llama", "qwen")

    def check(self):
        names = [
            "llama",
            "kimi_k2",
        ]
        return self.target.media_token or getattr(self, "other_token", None)


class Model(nn.Module, interfaces.SupportsEagle3, Generic[int]):
    flag = True

    def forward(self):
        self.written = 1
"""


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("f.py: class Model has base SupportsEagle3", True),
        ("f.py: class Model has base Generic", True),
        ("f.py: class Config has base SupportsEagle3", False),
        ("f.py: class Model defines forward", True),
        ("f.py: class Model defines flag", True),
        ("f.py: class Model defines backward", False),
        ('f.py: Config lists "kimi_k2"', True),
        ('f.py: Config.check lists "kimi_k2"', True),
        ('f.py: Config.check lists "qwen"', False),
        ('f.py: module lists "qwen"', True),
        ('f.py: Model lists "kimi_k2"', False),
        ("f.py: Config reads media_token", True),
        ("f.py: Config reads other_token", True),
        ("f.py: module reads written", False),
        ("f.py: text matches /^class Config:$/", True),
        ("f.py: text lacks /Mistral/", True),
        ("f.py: text lacks /Config/", False),
        ("f.py: exists", True),
        ("f.py: is absent", False),
        ("gone.py: is absent", True),
        ("gone.py: text lacks /x/", False),
        ("gone.py: class A has base B or f.py: class Model defines flag", True),
        ("gone.py: class A has base B or f.py: class Model defines none", False),
        ("broken.py: module reads x", False),
    ],
)
def test_goals_are_judged_on_the_syntax_tree(text, reached):
    files = {"f.py": CODE, "broken.py": "def ("}
    assert is_reached(parse_goal(text), files.get) is reached


@pytest.mark.parametrize(
    "text", ["f.py: class A is nice", "no file", "f.py: text matches /(/", 'f.py: A lists "x" or B']
)
def test_a_goal_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="found"):
        parse_goal(text)


# --- patches with goals and variants --------------------------------------------------------------

HEADER = """\
Description: Accept two
 more names.
Goal: f.py: module lists "kimi"
"""


def a_diff(line: str, name: str = "f.py", applies: str = "") -> str:
    head = f"Applies-To: {applies}\n\n" if applies else ""
    hunk = f'@@ -1 +1 @@\n-names = [{line}]\n+names = [{line}, "kimi"]\n'
    return f"{head}--- a/{name}\n+++ b/{name}\n{hunk}"


def write(folder, header=HEADER, **variants):
    place = folder / "names"
    place.mkdir(parents=True)
    (place / "header").write_text(header)
    for name, text in variants.items():
        (place / f"{name}.patch").write_text(text)
    (selected,) = select_patches(("names",), folder)
    return load_patch(selected)


def draft(**files: str) -> Draft:
    contents = {name.replace("__", "."): text for name, text in files.items()}
    return Draft(lambda name: contents[name].encode() if name in contents else None)


@pytest.fixture
def patch(tmp_path):
    return write(
        tmp_path,
        one=a_diff('"a"', applies=">=1,<2"),
        two=a_diff('"a", "b"', applies=">=2,<3"),
    )


def test_the_version_chooses_the_diff(patch):
    assert patch.description == "Accept two more names."
    for version, text in (("1.5", 'names = ["a"]\n'), ("2.0", 'names = ["a", "b"]\n')):
        files = draft(f__py=text)
        assert apply_one(patch, files, version) == Applied(patch="names", files=("f.py",))
        assert "kimi" in ast.literal_eval((files.text("f.py") or "").split("=")[1].strip())


def test_a_goal_that_is_reached_wins_over_every_range(patch):
    files = draft(f__py='other = ("kimi",)\n')
    assert apply_one(patch, files, "9.9") == AlreadyUpstream(patch="names")
    assert files.contents == {}


def test_a_version_without_a_diff_is_a_failure_when_the_goal_is_not_reached(patch):
    with pytest.raises(PatchError, match=r"needed, and none of its diffs is for version 3\.0"):
        apply_one(patch, draft(f__py='names = ["a"]\n'), "3.0")


def test_two_diffs_for_one_version_are_refused(tmp_path):
    patch = write(tmp_path, one=a_diff('"a"', applies=">=1"), two=a_diff('"b"', applies=">=2"))
    with pytest.raises(PatchError, match="More than one diff"):
        choose_variant(patch, "2.5")


def test_a_diff_that_misses_the_goal_is_refused(tmp_path):
    patch = write(tmp_path, one=a_diff('"a"').replace('"kimi"', '"other"'))
    with pytest.raises(PatchError, match=r'did not reach its goal: f\.py: module lists "kimi"'):
        apply_one(patch, draft(f__py='names = ["a"]\n'), "1.0")


def test_a_diff_that_breaks_the_syntax_is_refused(tmp_path):
    patch = write(tmp_path, one=a_diff('"a"').replace('"kimi"]', '"kimi"'))
    with pytest.raises(PatchError, match=r"leaves f\.py no valid Python"):
        apply_one(patch, draft(f__py='names = ["a"]\n'), "1.0")


def test_a_tree_without_the_needed_file_is_refused(tmp_path):
    patch = write(tmp_path, HEADER + "Needs-File: g.py\n", one=a_diff('"a"'))
    assert files_of(patch) == ("f.py", "g.py")
    with pytest.raises(PatchError, match=r"trees that have g\.py"):
        apply_one(patch, draft(f__py='names = ["a"]\n'), "1.0")


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("Goals: x\n", "Did you mean 'Goal'"),
        ("Goal: f.py: is nice\n", "allowed one of"),
        ("just words\n", "in the header"),
    ],
)
def test_a_wrong_header_is_named(tmp_path, header, told):
    with pytest.raises(PatchError, match=told):
        write(tmp_path, header, one=a_diff('"a"'))


def test_wrong_specifiers_and_a_patch_without_diffs_are_named(tmp_path):
    with pytest.raises(PatchError, match="PEP 440"):
        write(tmp_path / "a", one=a_diff('"a"', applies="new"))
    with pytest.raises(PatchError, match="Found no diff"):
        write(tmp_path / "b")


def test_every_change_of_a_variant_changes_the_digest(tmp_path):
    write(tmp_path, one=a_diff('"a"'))
    (before,) = select_patches(("names",), tmp_path)
    (tmp_path / "names" / "one.patch").write_text(a_diff('"b"'))
    (after,) = select_patches(("names",), tmp_path)
    assert before.digest != after.digest
    assert known_patches(tmp_path) == ["names"]
