"""A git commit becomes a tree, without a checkout.

Fetching runs git itself with an environment of its own: no configuration of the user or the
machine, no hooks, no helper programs (``ext::``), no prompts. The tree is then read object by
object through GitPython and written here, so that no filter, attribute or link of the repository
decides where a byte goes. The mirror in the cache is the only thing that is kept.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from buildkit.digest import digest_bytes
from buildkit.environ import base_environment
from buildkit.errors import Location, SourceError, ToolchainError
from buildkit.fs import clone_file, locked, staged_directory, write_atomic
from buildkit.sources.reach import require_host
from buildkit.sources.settings import redact, without_credentials

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.kit import Supply
    from buildkit.run import Completed

__all__ = ["Git"]

#: Deepest nesting of submodules that is followed.
MAX_DEPTH = 8

_MODES = {0o100644: 0o644, 0o100664: 0o644, 0o100755: 0o755}


class Git:
    """Fetches commits into mirrors and exports them."""

    def __init__(self, supply: Supply) -> None:
        self._supply = supply
        self.exported: list[tuple[str, str]] = []
        """Address and commit of all that was exported, submodules too."""
        self._variables = base_environment(supply.environment, network=True) | {
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        }
        if shutil.which("git", path=self._variables["PATH"]) is None:
            raise ToolchainError(
                "The program git was not found.",
                remedy="Install it: `apt-get install git` or `dnf install git`.",
            )

    def fetch(self, url: str, commit: str, ref: str = "") -> Path:
        """Return the mirror of a repository, which holds a commit.

        :param ref: What the commit was pinned from; an error tells where it is now.
        :raises SourceError: if the repository cannot be reached or lacks the commit.
        """
        mirror = (
            self._supply.paths.git / f"{digest_bytes(without_credentials(url).encode())[:16]}.git"
        )
        self._supply.holds.hold(mirror)
        with locked(mirror.with_suffix(".lock")):
            if not mirror.is_dir():
                with staged_directory(mirror) as stage:
                    self._git(["init", "--quiet", "--bare", str(stage)], url)
            if self._has(mirror, commit) or self._adopt(mirror, commit, url):
                return mirror
            if self._supply.is_offline:
                raise self._lacking(url, commit)
            self._supply.events.step("fetch", f"{redact(url)} at {commit[:12]}")
            require_host(url, self._variables)
            # One commit alone, where the server allows it; else everything, hidden refs too.
            told = ""
            for wanted in (["--depth", "1", "--", url, commit], ["--", url, "+refs/*:refs/all/*"]):
                fetch = ["-C", str(mirror), "fetch", "--quiet", "--no-tags", *wanted]
                told = " ".join(self._run(fetch).stderr.split())[-300:]
                if self._has(mirror, commit):
                    # A ref of its own keeps the commit when git tidies up.
                    self._git(
                        ["-C", str(mirror), "update-ref", f"refs/pinned/{commit}", commit], url
                    )
                    return mirror
        now = self._ask(url, ref)[0] if ref else ""
        moved = f" Its {ref} is at {now} now." if now and now != commit else ""
        reason = redact(told) or "it has no such commit"
        raise SourceError(
            f"Commit {commit} cannot be fetched from {redact(url)}: {reason}.{moved}",
            remedy="Look at what upstream has done, and write a new pin with `buildkit pin"
            " --upgrade` if you trust it."
            if moved
            else "Look at the address and the network; a commit that is gone needs a new pin.",
        )

    def pack(self, url: str, commit: str, destination: Path) -> None:
        """Write a pack that holds a commit with its tree, and nothing of its history.

        :raises SourceError: if the commit cannot be had.
        """
        mirror = self.fetch(url, commit)
        ref = f"refs/pinned/{commit}"
        self._git(["-C", str(mirror), "update-ref", ref, commit], url)
        with tempfile.TemporaryDirectory(prefix="buildkit-git-") as folder:
            self._git(["init", "--quiet", "--bare", folder], url)
            # Git makes the pack of a shallow clone itself, however much the mirror holds.
            fetch = ["fetch", "--quiet", "--keep", "--no-tags", "--depth", "1"]
            self._git(["-C", folder, *fetch, "--", mirror.absolute().as_uri(), ref], url)
            (made,) = Path(folder).glob("objects/pack/*.pack")
            clone_file(made, destination)

    def _adopt(self, mirror: Path, commit: str, url: str) -> bool:
        """Take a commit out of the user's mirror; tell whether it was there.

        Git computes the name of each object of the pack from its contents, so that a commit which
        can be walked afterwards is the one that the recipe pins, whoever made the pack.

        :raises SourceError: if the pack is damaged, or holds something else.
        """
        source = self._supply.mirror and self._supply.mirror.pack(commit)
        if not source:
            return False
        self._supply.events.step("fetch", f"{redact(url)} at {commit[:12]} from the mirror")
        pack = mirror / "objects" / "pack" / f"pack-{commit}.pack"
        index = pack.with_suffix(".idx")
        clone_file(source, pack)
        # Its parents are not there, and nobody is to look for them.
        # Source: git's technical documentation, "shallow".
        shallow = mirror / "shallow"
        known = shallow.read_text() if shallow.exists() else ""
        write_atomic(shallow, f"{known}{commit}\n".encode())
        done = self._run(["-C", str(mirror), "index-pack", str(pack)])
        if done.status == 0:
            walk = ["-C", str(mirror), "rev-list", "--objects", "--no-walk", "--quiet", commit]
            done = self._run(walk)
        if done.status == 0:
            self._git(["-C", str(mirror), "update-ref", f"refs/pinned/{commit}", commit], url)
            return True
        for file in (index, pack):
            file.unlink(missing_ok=True)
        write_atomic(shallow, known.encode())
        raise SourceError(
            f"The mirror's {source.name} does not hold commit {commit}:"
            f" {' '.join(done.stderr.split())[-200:]}.",
            where=Location(file=str(source)),
            remedy="Do not build from it; fill the mirror again with `buildkit fetch`.",
        )

    def _lacking(self, url: str, commit: str) -> SourceError:
        if self._supply.mirror is None:
            return SourceError(
                f"Commit {commit} of {redact(url)} was not fetched before.",
                remedy="Run it once without --offline.",
            )
        return SourceError(
            f"The mirror {self._supply.mirror.root} lacks commit {commit} of {redact(url)}.",
            remedy="Fill it with `buildkit fetch`, where the network is.",
        )

    def resolve(self, url: str, ref: str) -> str:
        """Return the commit that a tag or branch means now.

        :raises SourceError: if the repository cannot be reached or has no such ref.
        """
        require_host(url, self._variables)
        found, told = self._ask(url, ref)
        if found:
            return found
        raise SourceError(
            f"{ref or 'HEAD'} of {redact(url)} cannot be resolved: {told}.",
            remedy="Look at the address, the network, and the ref in the recipe.",
        )

    def _ask(self, url: str, ref: str) -> tuple[str, str]:
        """Return the commit of a ref or an empty text, and why it is empty."""
        done = self._run(["ls-remote", "--exit-code", "--", url, ref or "HEAD", f"{ref}^{{}}"])
        rows: dict[str, str] = dict(
            line.split("\t")[::-1] for line in done.stdout.splitlines() if "\t" in line
        )
        for name in (f"refs/tags/{ref}^{{}}", f"refs/tags/{ref}", f"refs/heads/{ref}", ref, "HEAD"):
            if name in rows and (name != "HEAD" or not ref):
                return rows[name], ""
        return "", redact(" ".join(done.stderr.split())[-300:]) or "it has no such tag or branch"

    def export(
        self,
        url: str,
        commit: str,
        destination: Path,
        *,
        has_submodules: bool,
        ref: str = "",
        depth: int = 0,
    ) -> None:
        """Write the tree of a commit into a directory, with its submodules if they are wanted.

        :param ref: As for :meth:`fetch`.
        :raises SourceError: if something of the tree cannot be had, or leads out of it.
        """
        mirror = self.fetch(url, commit, ref)
        self.exported.append((url, commit))
        repository = _open(mirror, self._variables)
        try:
            tree = repository.commit(commit).tree
            modules = _modules(tree) if has_submodules else {}
            destination.mkdir(parents=True, exist_ok=True)
            for entry in tree.traverse(branch_first=False):
                _check(entry.path, url)
                place = destination / entry.path
                if entry.type == "tree":
                    place.mkdir(exist_ok=True)
                elif entry.type == "blob":
                    _write(entry, place, url)
                elif entry.type == "submodule":
                    place.mkdir(exist_ok=True)
                    if has_submodules:
                        self._submodule(url, entry, modules, place, depth)
        finally:
            repository.close()

    def _submodule(
        self, url: str, entry: Any, modules: Mapping[str, str], place: Path, depth: int
    ) -> None:
        address = modules.get(entry.path, "")
        if not address or "::" in address or address.startswith("-") or depth >= MAX_DEPTH:
            raise SourceError(
                f"Submodule {entry.path} of {redact(url)} cannot be fetched: found address"
                f" {address!r}.",
                remedy="Leave `submodules` away in the recipe and name it as a source of its own.",
            )
        if address.startswith(("./", "../")):
            address = _relative(url, address)
        self.export(address, entry.hexsha, place, has_submodules=True, depth=depth + 1)

    def _has(self, mirror: Path, commit: str) -> bool:
        return self._run(["-C", str(mirror), "cat-file", "-e", f"{commit}^{{commit}}"]).status == 0

    def _git(self, arguments: list[str], url: str) -> None:
        done = self._run(arguments)
        if done.status != 0:
            raise SourceError(
                f"git failed for {redact(url)}: {redact(' '.join(done.stderr.split()))[-300:]}.",
                remedy="Look at the cache directory and at the address.",
            )

    def _run(self, arguments: list[str]) -> Completed:
        return self._supply.runner.capture(
            ["git", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", *arguments],
            env=self._variables,
        )


def _open(mirror: Path, variables: Mapping[str, str]) -> Any:
    # GitPython ends the process when it finds no git program; ours was found by now.
    import git

    repository = git.Repo(mirror)
    repository.git.update_environment(**variables)
    return repository


def _modules(tree: Any) -> dict[str, str]:
    """Return the address of each submodule by its path. Source: gitmodules(5)."""
    try:
        text = tree[".gitmodules"].data_stream.read().decode(errors="replace")
    except KeyError:
        return {}
    found: dict[str, str] = {}
    for section in re.split(r"^\s*\[submodule [^\]]*\]", text, flags=re.MULTILINE)[1:]:
        keys = dict(re.findall(r"^\s*(\w+)\s*=\s*(.*?)\s*$", section, re.MULTILINE))
        if "path" in keys and "url" in keys:
            found[keys["path"]] = keys["url"]
    return found


def _relative(url: str, address: str) -> str:
    """Return the address of a submodule that is given relative to its parent's."""
    if "://" in url and not url.startswith("file://"):
        return urljoin(url.rstrip("/") + "/", address)
    return posixpath.normpath(posixpath.join(url, address))


def _check(path: str, url: str) -> None:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or any(part.lower() == ".git" for part in parts):
        raise SourceError(
            f"{redact(url)} holds the name {path!r}, which leads out of its tree.",
            remedy="Do not build it.",
        )


def _write(entry: Any, place: Path, url: str) -> None:
    data = entry.data_stream.read()
    if entry.mode == 0o120000:
        target = data.decode(errors="surrogateescape")
        reached = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
        if target.startswith("/") or reached == ".." or reached.startswith("../"):
            raise SourceError(
                f"{redact(url)} holds a link {entry.path!r} to {target!r}, out of its tree.",
                remedy="Do not build it, or take it away upstream.",
            )
        place.symlink_to(target)
        return
    place.write_bytes(data)
    place.chmod(_MODES.get(entry.mode, 0o644))
