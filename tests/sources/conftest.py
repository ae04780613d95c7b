"""An index of files, and a repository with a submodule."""

from __future__ import annotations

import tarfile

import pytest

from tests.programs import git


@pytest.fixture
def index(tmp_path):
    """A package index of files: one project with one sdist."""
    project = tmp_path / "index" / "toy"
    project.mkdir(parents=True)
    source = tmp_path / "toy-1.0"
    source.mkdir()
    (source / "pyproject.toml").write_text("[project]\nname = 'toy'\n")
    (source / "deep").mkdir()
    (source / "deep" / "f").write_text("x")
    with tarfile.open(project / "toy-1.0.tar.gz", "w:gz") as tar:
        tar.add(source, "toy-1.0")
    (project / "index.html").write_text('<a href="toy-1.0.tar.gz">toy-1.0.tar.gz</a>')
    return tmp_path / "index"


@pytest.fixture
def repository(tmp_path):
    """A repository with a submodule that is named relative to it, a link, and a program."""
    sub, main = tmp_path / "sub", tmp_path / "main repo"
    for folder in (sub, main):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "main")
    (sub / "inner").write_text("inner")
    git(sub, "add", ".")
    git(sub, "commit", "-qm", "x")
    (main / "run").write_text("#!/bin/sh\n")
    (main / "run").chmod(0o755)
    (main / "link").symlink_to("run")
    (main / ".gitattributes").write_text("run export-ignore\n")
    git(main, "submodule", "add", "-q", "../sub", "third_party")
    git(main, "add", ".")
    git(main, "commit", "-qm", "x")
    git(main, "tag", "-a", "v1", "-m", "v1")
    return main
