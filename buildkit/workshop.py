"""The workshop of a build: where and with what it runs, as the tools are told.

What enters: a plan and a prepared slot, environment and toolkit. What leaves: the environment and
the settings of the build backend, and on disk the launcher's configuration with the names that
stand before compilers and build tools.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from buildkit import launcher
from buildkit.errors import RecipeError, ToolchainError
from buildkit.fs import remove_tree, write_atomic

if TYPE_CHECKING:
    from collections.abc import Mapping

    from buildkit.backend import Backend
    from buildkit.cache.compiled import ObjectCache
    from buildkit.launcher import Admission, Isolation
    from buildkit.paths import Slot
    from buildkit.toolchain.sysroot import Sysroot
    from buildkit.values import Plan

__all__ = [
    "SOURCE_DATE_EPOCH",
    "Workshop",
    "backend_settings",
    "build_variables",
    "write_launcher",
]

#: Time of everything in a wheel, so that equal inputs give equal bytes: the first that a zip
#: archive can hold, 1980-01-01. Source: reproducible-builds.org "SOURCE_DATE_EPOCH"; PKWARE APPNOTE
#: 4.4.6 on the DOS date.
SOURCE_DATE_EPOCH = 315532800

#: Where distributions keep the programs of the system.
_SYSTEM = (
    *("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"),
    *("/run/current-system/sw/bin", "/run/wrappers/bin"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Where and with what a build runs."""

    slot: Slot
    environment: Path
    """Root of the isolated environment that holds the build requirements."""
    cuda_root: Path | None
    sysroot: Sysroot | None
    """Headers and libraries of the distribution that the machine lacks."""
    variables: Mapping[str, str]
    """The base environment of the child: PATH and what little it inherits."""
    sources: Mapping[str, Path]
    """Unpacked further sources, by name."""
    isolation: Isolation
    admission: Admission
    objects: ObjectCache | None = None
    """None compiles every unit."""

    @property
    def python(self) -> Path:
        """The interpreter that runs the build backend."""
        return self.environment / "bin" / "python"


def build_variables(plan: Plan, workshop: Workshop, backend: Backend) -> dict[str, str]:
    """Return the whole environment of the build, for the backend or for a person's shell."""
    slot = workshop.slot
    variables = dict(workshop.variables)
    variables.pop("XDG_CACHE_HOME", None)
    search = [str(slot.build_tools), str(workshop.environment / "bin")]
    if workshop.cuda_root is not None:
        root = str(workshop.cuda_root)
        search.append(f"{root}/bin")
        variables |= {"CUDA_HOME": root, "CUDA_PATH": root, "CUDACXX": f"{root}/bin/nvcc"}
    variables |= {
        "PATH": ":".join([*search, *_system_path(plan, variables["PATH"])]),
        # An empty home: setuptools reads ~/.pydistutils.cfg, and CMake ~/.cmake/packages.
        "HOME": str(slot.temporary),
        "USER": "buildkit",
        "LOGNAME": "buildkit",
        "BK_LAUNCH_CONFIG": str(slot.launch_config),
        "CMAKE_GENERATOR": "Ninja",
        # What the build tools are told, in the ways in which projects tell them; how many calls
        # run is the governor's business. vLLM divides the first by the last.
        "CMAKE_BUILD_PARALLEL_LEVEL": str(workshop.admission.jobs),
        "MAX_JOBS": str(workshop.admission.jobs),
        "MAKEFLAGS": f"-j{workshop.admission.jobs}",
        "NVCC_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "SOURCE_DATE_EPOCH": str(SOURCE_DATE_EPOCH),
        "TMPDIR": str(slot.temporary),
        "VIRTUAL_ENV": str(workshop.environment),
        # A ccache that happens to be installed would come between torch and the launcher.
        "TORCH_NO_COMPILER_WRAPPER": "1",
        # Where setuptools puts objects: outside the source, so that they outlive its renewal.
        "DIST_EXTRA_CONFIG": str(slot.setuptools_config),
    }
    # These take one word, so the launcher stands behind the compilers' own names. CMake has its own
    # way to a launcher; what it builds by other tools comes along here.
    variables |= {"CC": str(slot.shims / "gcc"), "CXX": str(slot.shims / "g++")}
    if plan.backend != "cmake":
        variables["PYTORCH_NVCC"] = str(slot.shims / "nvcc")
    elif not backend.is_scikit_build:
        variables["CMAKE_ARGS"] = _cmake_arguments(plan, workshop)
    variables |= {name: _expand(value, workshop) for name, value in plan.environment}
    if workshop.sysroot is not None:
        for name, folders in _search_paths(workshop.sysroot).items():
            before = [variables[name]] if variables.get(name) else []
            variables[name] = ":".join([*before, *map(str, folders)])
    return variables


def _search_paths(sysroot: Sysroot) -> dict[str, tuple[Path, ...]]:
    """Return the variables by which compilers, linkers, CMake and pkg-config find a sysroot.

    GCC obeys its own also where nvcc calls it, and CMake's reach find_path, find_library and
    find_package without taking a cache variable that a project may set itself. Source: GCC manual,
    "Environment Variables"; CMake manual, cmake-env-variables; pkg-config(1).
    """
    libraries = sysroot.libraries
    return {
        "C_INCLUDE_PATH": sysroot.includes,
        "CPLUS_INCLUDE_PATH": sysroot.includes,
        "LIBRARY_PATH": libraries,
        "CMAKE_INCLUDE_PATH": sysroot.includes,
        "CMAKE_LIBRARY_PATH": libraries,
        "CMAKE_PREFIX_PATH": (sysroot.prefix,),
        "PKG_CONFIG_PATH": tuple(folder / "pkgconfig" for folder in libraries),
    }


def _system_path(plan: Plan, path: str) -> list[str]:
    """Return what a build sees of the user's PATH: the system's directories and the compiler's.

    CMake looks for packages beside each directory of PATH, so that an active conda environment
    would bring its libraries into a wheel whose key says nothing of them.
    """
    compilers = {str(_tool(plan, name).parent) for name in ("gcc", "g++")}
    return [folder for folder in path.split(":") if folder in compilers or folder in _SYSTEM]


def _tool(plan: Plan, name: str) -> Path:
    """Return the path of a tool that the plan names.

    :raises ToolchainError: if it names none.
    """
    for tool in plan.toolchain.tools:
        if tool.name == name:
            return tool.path
    raise ToolchainError(f"The plan of {plan.recipe} holds no {name}.")


def _defines(plan: Plan, workshop: Workshop) -> dict[str, str]:
    """Return all CMake cache variables: the plan's, and where this machine's tools lie."""
    launch = str(launcher.binary("bk-launch"))
    languages = ["C", "CXX"] if workshop.cuda_root is None else ["C", "CXX", "CUDA"]
    found = {
        f"CMAKE_{language}_{what}_LAUNCHER": launch
        for language in languages
        for what in ("COMPILER", "LINKER")
    }
    found |= {
        "CMAKE_C_COMPILER": str(_tool(plan, "gcc")),
        "CMAKE_CXX_COMPILER": str(_tool(plan, "g++")),
    }
    if workshop.cuda_root is not None:
        found |= {
            "CMAKE_CUDA_COMPILER": f"{workshop.cuda_root}/bin/nvcc",
            "CMAKE_CUDA_HOST_COMPILER": str(_tool(plan, "g++")),
            "CUDAToolkit_ROOT": str(workshop.cuda_root),
        }
    if workshop.sysroot is not None and (python := workshop.sysroot.python_includes):
        # FindPython asks the interpreter, which names a directory that is not there.
        found |= {f"{name}_INCLUDE_DIR": str(python[0]) for name in ("Python", "Python3")}
    if plan.project_include is not None:
        found["CMAKE_PROJECT_INCLUDE"] = str(workshop.slot.project_include)
    return found | {name: _expand(value, workshop) for name, value in plan.defines}


def _expand(value: str, workshop: Workshop) -> str:
    """Replace ``${sources.NAME}`` by the directory of that source."""
    for name, path in workshop.sources.items():
        value = value.replace(f"${{sources.{name}}}", str(path))
    return value


def backend_settings(plan: Plan, workshop: Workshop, backend: Backend) -> dict[str, str]:
    """Return the PEP 517 config settings."""
    settings: dict[str, str] = {}
    if backend.is_scikit_build:
        settings["build-dir"] = str(workshop.slot.build)
        settings |= {
            f"cmake.define.{name}": value for name, value in _defines(plan, workshop).items()
        }
    return settings | dict(plan.config_settings)


def _cmake_arguments(plan: Plan, workshop: Workshop) -> str:
    """Return ``CMAKE_ARGS`` for a ``setup.py`` that runs CMake; those split it on blanks.

    :raises RecipeError: if a value holds a blank.
    """
    defines = _defines(plan, workshop)
    for name, value in defines.items():
        if " " in value:
            raise RecipeError(
                f"CMake variable {name} of recipe {plan.recipe} holds a blank: {value!r}.",
                remedy="Projects that drive CMake from setup.py cannot take it; use another value.",
            )
    return " ".join(f"-D{name}={value}" for name, value in defines.items())


def write_launcher(plan: Plan, workshop: Workshop) -> None:
    """Tell ``bk-launch`` what to do, and put the compilers' names in front of it."""
    slot = workshop.slot
    tools = {"gcc": _tool(plan, "gcc"), "g++": _tool(plan, "g++")}
    tools |= {"cc": tools["gcc"], "c++": tools["g++"]}
    if workshop.cuda_root is not None:
        tools["nvcc"] = workshop.cuda_root / "bin" / "nvcc"
    build_tools = _build_tools(workshop)
    maps = _stable_names(plan, workshop)
    text = launcher.render_config(
        target=plan.arch,
        without_code=plan.without_code,
        rules=plan.rules,
        tools=tools | build_tools,
        records=slot.records,
        admission=workshop.admission,
        maps=maps,
        engine=workshop.objects.engine(maps) if workshop.objects is not None else None,
    )
    write_atomic(slot.launch_config, text.encode())
    for folder, names in ((slot.shims, tools), (slot.build_tools, build_tools)):
        remove_tree(folder)
        folder.mkdir()
        for name in names:
            (folder / name).symlink_to(launcher.binary("bk-launch"))


def _stable_names(plan: Plan, workshop: Workshop) -> list[tuple[Path, str]]:
    """Return what stands in objects for the directories of this machine.

    Source: GCC 8 release notes, "-ffile-prefix-map"; an older compiler is told nothing.
    """
    gcc = next(tool.version for tool in plan.toolchain.tools if tool.name == "gcc")
    if int(gcc.partition(".")[0]) < 8:
        return []
    named = [(workshop.slot.root, "/buildkit"), (workshop.environment, "/buildkit/environment")]
    if workshop.cuda_root is not None:
        named.append((workshop.cuda_root, "/buildkit/cuda"))
    if workshop.sysroot is not None:
        named.append((workshop.sysroot.root, "/buildkit/system"))
    found: dict[Path, str] = {}
    for folder, name in named:
        # A build tool may have followed the links on the way.
        found |= {folder: name, folder.resolve(): name}
    return list(found.items())


def _build_tools(workshop: Workshop) -> dict[str, Path]:
    """Return ninja and make, as far as there are any.

    A directory of their own in PATH, without the compilers: projects guess where CUDA lies from
    where they find nvcc.
    """
    search = f"{workshop.environment / 'bin'}:{workshop.variables['PATH']}"
    found = {name: shutil.which(name, path=search) for name in ("ninja", "make")}
    return {name: Path(path) for name, path in found.items() if path is not None}
