"""The twin of sgl-kernel on a bare system: Debian's smallest, as root and as nobody in particular.

    debootstrap --variant=minbase --include=python3-venv,g++,git,ca-certificates bookworm ROOT
    python -m benchmarks.bare_root ROOT

As root, on a machine that reaches the package index and Debian's packages. The system in ROOT has
Python, a C++ compiler and git: no CUDA, no CMake, no ninja, no header of Python or libnuma. For
each of the two users the kit is installed by pip into an environment of its own; it pins and makes
the twin, whose repositories this program serves on loopback, and a small project that needs
libnuma, with an empty cache. Of this machine, ROOT sees the kernel's file systems, the network,
and the certificates and settings by which pip and apt reach their indexes. Prints what each make
said and took.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.sgl_kernel.twin import read_recipe, serve, write_recipe
from tests.world import World

KIT = Path(__file__).resolve().parent.parent
PROJECTS = KIT / "tests" / "projects"

#: What leads pip and apt to their indexes, where the machine has it.
SETTINGS = (
    "/etc/pip.conf",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/ssl/certs",
    "/etc/apt/apt.conf.d",
)

#: Run in mount and process namespaces of its own, so that nothing stays mounted or alive.
ENTER = """\
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount -t sysfs sys "$1/sys"
exec chroot --userspec="$2" "$1" /usr/bin/env -i HOME="$3" PATH=/usr/bin:/bin:/usr/sbin:/sbin \\
  LANG=C.UTF-8 sh -ec "$4"
"""


def inside(root: Path, user: str, home: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's text in the system; what it writes is returned, and shown if it fails."""
    command = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh"]
    done = subprocess.run(
        [*command, str(root), user, home, script], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{script}\n{done.stdout}\n{done.stderr}\nstatus {done.returncode}")
    return done


def take_settings(root: Path) -> None:
    """Copy what leads to the indexes into the system."""
    for name in SETTINGS:
        if Path(name).is_file():
            shutil.copy(name, root / name[1:])


def place_kit(root: Path) -> None:
    """Put the kit's committed files where both users read them."""
    place = root / "srv" / "buildkit"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with tempfile.NamedTemporaryFile(suffix=".tar") as archive:
        tar = ["git", "-C", str(KIT), "archive", "--output", archive.name, "HEAD"]
        subprocess.run(tar, check=True)
        shutil.unpack_archive(archive.name, place)


def install_kit(root: Path, user: str, home: str) -> None:
    """Install the kit as a user, and give him the recipes."""
    setup = "cd ~ && rm -rf kit buildkit recipes .cache && cp -r /srv/buildkit /srv/recipes ."
    setup += " && python3 -m venv kit && kit/bin/pip install --quiet ./buildkit"
    inside(root, user, home, setup)


def make(root: Path, user: str, home: str, name: str) -> None:
    """Pin and make a recipe as a user; print how the make went."""
    kit = "cd ~ && export BUILDKIT_RECIPES=~/recipes && kit/bin/buildkit"
    inside(root, user, home, f"{kit} pin {name}")
    start = time.monotonic()
    made = inside(root, user, home, f"{kit} make {name} --arch sm120")
    seconds = time.monotonic() - start
    lines = [line for line in made.stderr.splitlines() if re.match(r"\w+ {2,}", line)]
    print(f"{name} as {user}: {seconds:.0f} s", *lines, made.stdout.strip(), sep="\n  ")


def main() -> None:
    """Make the twin as each user."""
    root = Path(sys.argv[1]).resolve()
    if os.geteuid() != 0 or not (root / "usr" / "bin" / "python3").exists():
        sys.exit("Run it as root, with the directory that debootstrap made.")
    take_settings(root)
    place_kit(root)
    inside(
        root, "0:0", "/root", "id dev || useradd --create-home dev; chmod 1777 /tmp; apt-get update"
    )
    for command in ("nvcc", "cmake", "ninja"):
        inside(root, "0:0", "/root", f"! command -v {command}")
    inside(
        root, "0:0", "/root", "! test -e /usr/include/numa.h && ! ls /usr/include/python3*/Python.h"
    )
    with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "server") as served:
        world = World(Path(folder), Path(folder) / "cache")
        write_recipe(read_recipe(), served, world)
        for name in ("numa-cmake", "numa-cmake.toml"):
            subprocess.run(["cp", "-r", str(PROJECTS / name), str(world.recipes)], check=True)
        shutil.rmtree(root / "srv" / "recipes", ignore_errors=True)
        shutil.copytree(world.recipes, root / "srv" / "recipes")
        for user, home in (("0:0", "/root"), ("1000:1000", "/home/dev")):
            install_kit(root, user, home)
            for name in ("sgl-kernel", "numa-cmake"):
                make(root, user, home, name)


if __name__ == "__main__":
    main()
