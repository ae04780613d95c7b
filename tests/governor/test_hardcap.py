"""The hard cap on fixture trees of every kind of machine, and for real where one can be made."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from buildkit.errors import RequestError
from buildkit.governor import hardcap
from buildkit.governor.hardcap import hard_cap
from buildkit.launcher import binary
from tests.machine import needs_memory_group, needs_new_group

CAP = 5 << 30

V2_MOUNT = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNT = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
UNIFIED_MOUNT = "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"

V1 = {
    "memory/ci/memory.limit_in_bytes": "9223372036854771712\n",
    "memory/ci/memory.use_hierarchy": "1\n",
}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Writes a machine's files. No fixture's group can be removed: its files are real ones."""
    monkeypatch.setattr(hardcap, "PATIENCE_SECONDS", 0.0)

    def write(cgroup: str, mounts: list[str], files: dict[str, str]) -> Path:
        everything = {
            "proc/self/cgroup": cgroup,
            "proc/self/mountinfo": "\n".join(mounts) + "\n",
        } | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
        for name, text in everything.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return write


def refusal(root: Path) -> str:
    with hard_cap(CAP, "auto", root=root) as cap:
        assert (cap.group, cap.entrance, cap.headroom(), cap.kills()) == (None, None, None, 0)
    with pytest.raises(RequestError) as caught, hard_cap(CAP, "on", root=root):
        pass
    assert caught.value.remedy
    return cap.description


def test_v1_limits_memory_and_swap_together(machine):
    with hard_cap(CAP, "on", root=machine("4:memory:/ci\n", [V1_MOUNT], V1)) as cap:
        assert cap.group is not None
        folder = cap.group.directory
        assert (folder.parent.name, cap.entrance) == ("ci", folder / "cgroup.procs")
        assert (folder / "memory.limit_in_bytes").read_text() == str(CAP)
        assert (folder / "memory.memsw.limit_in_bytes").read_text() == str(CAP)
        (folder / "memory.usage_in_bytes").write_text(str(1 << 30))
        assert cap.headroom() == CAP - (1 << 30)
        (folder / "memory.oom_control").write_text("under_oom 0\noom_kill 3\n")
        assert cap.kills() == 3
        assert cap.description == f"cgroup v1 /ci/{folder.name}"


def test_v2_delegated(machine):
    files = {"ci/cgroup.subtree_control": "cpu memory\n"}
    with hard_cap(CAP, "on", root=machine("0::/ci\n", [V2_MOUNT], files)) as cap:
        assert cap.group is not None
        folder = cap.group.directory
        assert (folder / "memory.max").read_text() == str(CAP)
        assert (folder / "memory.swap.max").read_text() == "0"
        (folder / "memory.current").write_text(str(CAP))
        (folder / "memory.events").write_text("oom 2\noom_kill 1\n")
        assert (cap.headroom(), cap.kills()) == (0, 1)


def test_v2_that_can_be_told_to_delegate_is_told(machine):
    root = machine("0::/ci\n", [V2_MOUNT], {"ci/cgroup.subtree_control": "cpu\n"})
    with hard_cap(CAP, "on", root=root) as cap:
        assert cap.group is not None
    assert (root / "sys/fs/cgroup/ci/cgroup.subtree_control").read_text() == "+memory"


def test_v2_that_does_not_delegate_is_told(machine):
    root = machine("0::/ci\n", [V2_MOUNT], {"ci/cgroup.subtree_control/refuses": ""})
    assert "/ci does not delegate memory" in refusal(root)


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """A kernel that lets no group delegate that holds processes. Returns what it was told."""
    write, told = Path.write_text, []

    def guarded(self: Path, data: str, *args: object, **options: object) -> int:
        if self.name in ("cgroup.procs", "cgroup.subtree_control"):
            told.append((self.parent.name, data))
        if data == "+memory" and (self.parent / "cgroup.procs").read_text().split():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if self.name == "cgroup.procs":
            for left in tmp_path.rglob(self.name):
                write(left, "")
        return write(self, data, *args, **options)

    def start() -> list[tuple[str, str]]:
        monkeypatch.setattr(Path, "write_text", guarded)
        return told

    return start


def test_v2_that_holds_only_us_is_left_meanwhile(machine, busy):
    """The state in which ``systemd-run --scope -p Delegate=yes`` starts a program."""
    us = str(os.getpid())
    files = {"ci/cgroup.subtree_control": "", "ci/cgroup.procs": f"{us}\n"}
    root = machine("0::/ci\n", [V2_MOUNT], files)
    told = busy()
    with hard_cap(CAP, "on", root=root) as cap:
        assert cap.group is not None
        leaf, group = f"buildkit-{us}-0", cap.group.directory
        assert (group.parent.name, group.name) == ("ci", f"buildkit-{us}-1")
        assert (group / "memory.max").read_text() == str(CAP)
        assert told == [("ci", "+memory"), (leaf, us), ("ci", "+memory")]
    assert told[3:] == [("ci", "-memory"), ("ci", us)]


def test_v2_that_holds_others_too_is_refused(machine, busy):
    files = {"ci/cgroup.subtree_control": "", "ci/cgroup.procs": f"{os.getpid()}\n1\n"}
    root = machine("0::/ci\n", [V2_MOUNT], files)
    told = busy()
    assert "may not" in refusal(root)
    assert set(told) == {("ci", "+memory")}
    assert not list(root.glob("sys/fs/cgroup/ci/buildkit-*"))


def test_v1_that_does_not_count_children_is_refused(machine):
    """A group below it would escape the limit that holds us."""
    files = V1 | {"memory/ci/memory.use_hierarchy": "0\n"}
    root = machine("4:memory:/ci\n", [V1_MOUNT], files)
    assert "does not count its children" in refusal(root)


def test_hybrid_takes_the_version_that_has_the_controller(machine):
    files = V1 | {"unified/ci/cgroup.subtree_control": "\n"}
    root = machine("4:memory:/ci\n0::/ci\n", [V1_MOUNT, UNIFIED_MOUNT], files)
    with hard_cap(CAP, "on", root=root) as cap:
        assert cap.group is not None
        assert cap.group.version == 1
    assert list((root / "sys/fs/cgroup/unified/ci").iterdir()) == [
        root / "sys/fs/cgroup/unified/ci/cgroup.subtree_control"
    ]


def test_a_file_system_that_is_read_only_is_told(machine, monkeypatch):
    root = machine("4:memory:/ci\n", [V1_MOUNT], V1)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert "Read-only file system" in refusal(root)


def test_a_group_whose_limit_cannot_be_set_is_removed(machine, monkeypatch):
    root = machine("4:memory:/ci\n", [V1_MOUNT], V1)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(Path, "write_text", refuse)
    assert "busy" in refusal(root)
    assert not list(root.glob("sys/fs/cgroup/memory/ci/buildkit-*"))


def test_no_group_no_cap(machine):
    assert "in no memory group" in refusal(machine("", [], {}))


def test_off_makes_nothing(machine):
    root = machine("4:memory:/ci\n", [V1_MOUNT], V1)
    with hard_cap(CAP, "off", root=root) as cap:
        assert (cap.group, cap.description) == (None, "off")
    assert not list(root.glob("sys/fs/cgroup/memory/ci/buildkit-*"))


def test_only_what_a_dead_make_left_is_swept_away(machine):
    """The group of another make is empty between two of its commands."""
    root = machine("4:memory:/ci\n", [V1_MOUNT], V1)
    parent = root / "sys/fs/cgroup/memory/ci"
    dead = subprocess.Popen(["true"])
    dead.wait()
    left, used = parent / f"buildkit-{dead.pid}-0", parent / f"buildkit-{os.getppid()}-0"
    left.mkdir()
    used.mkdir()
    with hard_cap(CAP, "on", root=root):
        assert used.is_dir()
        assert not left.exists()


def test_two_caps_of_one_process_are_two_groups(machine):
    root = machine("4:memory:/ci\n", [V1_MOUNT], V1)
    with hard_cap(CAP, "on", root=root) as one, hard_cap(CAP, "on", root=root) as other:
        assert one.entrance != other.entrance


# --- for real ------------------------------------------------------------------------------------


#: Holds so many MiB, says so, and waits.
HOLD = """\
import sys, time
held = bytearray(int(sys.argv[1]) << 20)
for page in range(0, len(held), 4096):
    held[page] = 1
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


def hold(entrance: Path, mib: int, seconds: float) -> subprocess.Popen[str]:
    program = [sys.executable, "-c", HOLD, str(mib), str(seconds)]
    return subprocess.Popen(
        [binary("bk-isolate"), "--cgroup", entrance, "--", *program],
        stdout=subprocess.PIPE,
        text=True,
    )


@needs_memory_group
def test_the_kernel_kills_what_grows_beyond_the_cap():
    with hard_cap(64 << 20, "on") as cap:
        assert cap.entrance is not None
        with hold(cap.entrance, 16, 0) as small:
            assert small.communicate()[0] == "held\n"
        assert (small.returncode, cap.kills()) == (0, 0)
        with hold(cap.entrance, 200, 0) as big:
            assert big.communicate()[0] == ""
        assert big.returncode != 0
        assert cap.kills() >= 1
    assert not cap.entrance.parent.exists()


@needs_memory_group
def test_the_group_goes_although_a_process_still_runs_in_it():
    with hard_cap(256 << 20, "on") as cap:
        assert cap.entrance is not None
        kept = hold(cap.entrance, 32, 600)
        assert kept.stdout is not None
        assert kept.stdout.readline() == "held\n"
        before = cap.headroom()
        assert before is not None
        assert before < (256 - 32) << 20
    assert not cap.entrance.parent.exists()
    assert kept.wait(timeout=20) != 0
    kept.stdout.close()


#: Asks for a cap in a group that it has to itself, as systemd's scopes are.
ALONE = """\
import sys
from pathlib import Path
from buildkit.governor.hardcap import hard_cap
sys.path.insert(0, sys.argv[2])
from tests.governor.test_hardcap import hold
Path(sys.argv[1], "cgroup.procs").write_text("0")
for _ in range(2):
    with hard_cap(64 << 20, "on") as cap, hold(cap.entrance, 200, 0) as big:
        big.communicate()
        print(cap.description, cap.kills() >= 1, big.returncode != 0)
    print(sorted(path.name for path in Path(sys.argv[1]).glob("buildkit-*")))
"""


@needs_new_group
def test_v2_for_real_from_a_group_of_its_own():
    group = Path("/sys/fs/cgroup", f"tests-{os.getpid()}")
    group.mkdir()
    try:
        program = [sys.executable, "-c", ALONE, group, Path(__file__).parents[2]]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        found = done.stdout.splitlines()
        assert len(found) == 4
        for description, left in (found[:2], found[2:]):
            assert description.startswith("cgroup v2 /")
            assert description.endswith(" True True")
            assert left == "[]"
    finally:
        group.rmdir()
