"""Verification: a built wheel proves that it holds what was asked for, and becomes the result.

What enters: a plan and the wheel as the build made it. What leaves: a
:class:`~buildkit.values.VerifiedWheel`, written anew with its local version and provenance. The GPU
code of every library is read; modules are imported in isolated mode by the interpreter of the
locked environment, from the unpacked wheel, without network.
"""

from __future__ import annotations

import tempfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit import launcher
from buildkit.arch import parse_arch, pins
from buildkit.digest import digest_file
from buildkit.errors import ArchError, Location, VerifyError
from buildkit.fs import remove_tree
from buildkit.sources.archive import extract_archive
from buildkit.sources.settings import read_index_settings
from buildkit.toolchain.cuobjdump import ensure_cuobjdump
from buildkit.values import GpuCode, ImportPassed, ImportSkipped, VerifiedWheel
from buildkit.wheels import list_gpu_code, read_wheel, render_provenance, rewrite_wheel
from buildkit.wheels.needed import list_needed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from buildkit.arch import GpuArch
    from buildkit.kit import Kit
    from buildkit.recipe.model import Recipe, Verify
    from buildkit.toolchain.sysroot import Sysroot
    from buildkit.values import BuiltWheel, PatchedTree, Plan
    from buildkit.wheels.read import WheelContents
    from buildkit.workshop import Workshop

__all__ = ["check_code", "has_gpu", "import_command", "last_line", "require_code", "verify_build"]


def verify_build(
    plan: Plan,
    recipe: Recipe,
    tree: PatchedTree,
    built: BuiltWheel,
    workshop: Workshop,
    kit: Kit,
    *,
    is_offline: bool,
) -> VerifiedWheel:
    """Verify a built wheel and write the result into the slot.

    :raises VerifyError: if the wheel is not sound, lacks code or holds unrequested code, or a
        module of the import check does not import.
    """
    contents = read_wheel(built.path)
    if workshop.sysroot is not None:
        _check_loader(contents, workshop.sysroot, kit)
    codes = require_code(contents, plan, recipe, kit, is_offline=is_offline)
    imports = _check_imports(built.path, recipe.verify, workshop, kit)
    verdict = VerifiedWheel(
        path=built.path, sha256=digest_file(built.path), gpu_code=codes, imports=imports
    ).verdict
    told = ", ".join(sorted({name for code in codes for name in (*code.sass, *code.ptx)}))
    kit.events.step("verify", f"{told or 'no GPU code'}: {verdict}")
    remove_tree(workshop.slot.result)
    result = rewrite_wheel(
        contents,
        workshop.slot.result,
        label=plan.local_version,
        pins=_pins(plan, recipe),
        provenance=render_provenance(plan, tree.outcomes, codes, imports, verdict),
    )
    read_wheel(result)
    return VerifiedWheel(path=result, sha256=digest_file(result), gpu_code=codes, imports=imports)


def require_code(
    contents: WheelContents, plan: Plan, recipe: Recipe, kit: Kit, *, is_offline: bool
) -> tuple[GpuCode, ...]:
    """Return the GPU code of a wheel, which is what the plan asks for; none without CUDA.

    :raises VerifyError: if the wheel lacks code or holds unrequested code.
    :raises ToolchainError: if there is no cuobjdump to read it with.
    """
    if plan.toolchain.cuda_root is None:
        return ()
    supply = kit.supply(read_index_settings(kit.environment), is_offline=is_offline)
    cuobjdump = ensure_cuobjdump(plan.python, supply)
    codes = list_gpu_code(
        contents.path, cuobjdump=cuobjdump, runner=kit.runner, environment=kit.environment
    )
    issues = tuple(check_code(codes, contents.files, plan.arch, recipe.verify))
    if issues:
        raise VerifyError(
            f"The wheel {contents.path.name} is not for {plan.arch.name}: {'; '.join(issues)}.",
            where=Location(file=str(contents.path)),
            remedy="Give the recipe a flag rule for these files, or allow the code in"
            " verify.allow-code.",
        )
    return codes


def check_code(
    codes: Sequence[GpuCode], files: Sequence[str], target: GpuArch, verify: Verify
) -> Iterator[str]:
    """Yield what is wrong with the GPU code of a wheel. Pure.

    :param files: Names of all files in the wheel.
    """

    def is_wanted(name: str) -> bool:
        return name in verify.allow_code or _is_for(name, target)

    for code in codes:
        extra = [name for name in (*code.sass, *code.ptx) if not is_wanted(name)]
        if extra:
            yield f"{code.library} holds code that nobody asked for ({', '.join(extra)})"
    by_name = {code.library: code for code in codes}
    for pattern in verify.libraries:
        matches = [name for name in files if fnmatch(name, pattern)]
        if not matches:
            yield f"no file matches {pattern!r}"
        for name in matches:
            found = by_name.get(name)
            if found is None or not any(_is_for(sm, target) for sm in found.sass):
                held = ", ".join(found.sass) if found is not None else "none"
                yield f"{name} lacks code for {target.name} (it holds {held})"


def _check_loader(wheel: WheelContents, sysroot: Sysroot, kit: Kit) -> None:
    """Tell which packages of the sysroot a wheel needs where it runs: no static form would do.

    Whether this machine has them is for the import check to say.
    """
    owners = sysroot.owners()
    own = {name.rpartition("/")[2] for name in wheel.files}
    for library, needed in list_needed(wheel.path):
        if needed in owners and needed not in own:
            kit.events.warning(
                f"{library} needs {needed} of package {owners[needed]} wherever the wheel runs; the"
                " package's static form cannot become part of a shared library."
            )


def _is_for(name: str, target: GpuArch) -> bool:
    """Tell whether code is for a target; code older than any target of the kit is for none."""
    try:
        return pins(parse_arch(name), target)
    except ArchError:
        return False


def _pins(plan: Plan, recipe: Recipe) -> dict[str, str]:
    """Return what the wheel must require: the torch whose binary interface it was built for."""
    version = plan.lock.versions.get("torch")
    if not recipe.torch or version is None:
        return {}
    release = ".".join(version.split("+")[0].split(".")[:2])
    return {"torch": f"torch=={release}.*"}


#: Imports modules, which have to lie where they are expected; the arguments are the directories,
#: one a line, and the modules.
_IMPORT = """\
import importlib, sys
roots = sys.argv[1].split("\\n")
sys.path[:0] = roots
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    origin = getattr(module, "__file__", None) or ""
    if not origin.startswith(tuple(roots)):
        sys.exit(f"{name} came from {origin}, not from the wheel")
"""


def import_command(python: Path, roots: Sequence[Path], modules: Sequence[str]) -> list[str]:
    """Return the command that imports modules from directories; its last line says why not."""
    listed = "\n".join(str(root) for root in roots)
    return [str(python), "-I", "-B", "-c", _IMPORT, listed, *modules]


def has_gpu() -> bool:
    """Tell whether this machine has an NVIDIA driver with a device. Source: nvidia-modprobe."""
    return Path("/dev/nvidiactl").exists()


def _check_imports(
    wheel: Path, verify: Verify, workshop: Workshop, kit: Kit
) -> ImportPassed | ImportSkipped:
    if not verify.imports:
        return ImportSkipped(modules=(), reason="the recipe names no module")
    if verify.needs_gpu and not has_gpu():
        return ImportSkipped(modules=verify.imports, reason="needs a GPU, and there is none here")
    with tempfile.TemporaryDirectory(prefix="buildkit-import-") as folder:
        unpacked = Path(folder).resolve() / "wheel"
        extract_archive(wheel, unpacked, strips_top=False)
        command = import_command(workshop.python, [unpacked], verify.imports)
        done = kit.runner.capture(
            launcher.isolated(command, workshop.isolation),
            env=workshop.variables,
            cwd=Path(folder),
            timeout_seconds=600,
        )
    if done.status != 0:
        raise VerifyError(
            f"The import check failed ({', '.join(verify.imports)}): {last_line(done.stderr)}",
            where=Location(file=str(wheel)),
            remedy="`buildkit shell` opens the environment in which it was tried.",
        )
    return ImportPassed(modules=verify.imports)


def last_line(text: str) -> str:
    """Return the line in which a traceback says what it is about."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
