"""Replaces apt-get, pip, uv and an engine's interpreter in bench/gpu/dockerfile.py.

It installs nothing: it fails where it does not know what it is to install, and writes what this
machine has instead into /stand-ins.json, a line a command.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import NoReturn

NAME, ARGUMENTS = Path(sys.argv[0]).name, sys.argv[1:]
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
DEBIAN = {
    "ca-certificates": ("/etc/ssl/certs", "/usr/share/ca-certificates"),
    "gcc": ("/usr/bin/gcc", "/opt/gcc/bin/gcc"),
    "libc6-dev": ("/usr/include/stdio.h",),
    "libpython3.12": (f"{LIBRARIES}/libpython3.12.so.1.0", "/usr/local/lib/libpython3.12.so.1.0"),
    "python3-pip": ("/",),
    "python3.12": ("/usr/bin/python3.12",),
    "python3.12-dev": ("/usr/include/python3.12/Python.h",),
    "python3.12-venv": ("/",),
}
"""Packages of Ubuntu, and where this machine has what is needed of them."""
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ \\;]+)[^\n]*((?:\n[ \t]+[^\n]*)*)", re.MULTILINE)


def note(**found: object) -> None:
    """Write down what was done."""
    with Path("/stand-ins.json").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"command": NAME, **found}) + "\n")


def fail(text: str) -> NoReturn:
    """End with an error."""
    sys.exit(f"{NAME}: {text}")


def option(name: str) -> str:
    """Return the value of an option that has to be there."""
    if name not in ARGUMENTS:
        fail(f"{name} is missing in {' '.join(ARGUMENTS)}")
    return ARGUMENTS[ARGUMENTS.index(name) + 1]


def pins() -> dict[str, str]:
    """Return name -> version of the requirements, each of which has a hash."""
    text = Path(option("--requirement")).read_text(encoding="utf-8")
    found = {}
    for name, version, hashes in PIN.findall(text):
        if "--hash=sha256:" not in hashes:
            fail(f"{name} has no hash")
        found[name] = version
    if not found:
        fail("no requirements")
    return found


def normal(name: str) -> str:
    """Return a package's name as requirements write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages() -> dict[str, tuple[str, Path]]:
    """Return name -> version and folder of this machine's packages, the first that has one."""
    found: dict[str, tuple[str, Path]] = {}
    for folder in filter(None, os.environ.get("MM_PACKAGES", "").split(":")):
        for one in sorted(Path(folder).glob("*.dist-info")):
            name, _, version = one.name.removesuffix(".dist-info").rpartition("-")
            found.setdefault(normal(name), (version, Path(folder)))
    return found


def environment(folder: Path, python: str = "") -> Path:
    """Return the folder of packages of an environment, which is made for an interpreter.

    By hand, since Ubuntu's interpreter may lack what venv needs.
    """
    site = folder / "lib" / "python3.12" / "site-packages"
    if python:
        if Path(python).name == "engine-python":
            python = str(Path(os.environ["MM_ENGINE"]).resolve())
        site.mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "pyvenv.cfg").write_text(f"home = {Path(python).parent}\n")
        for name in ("python3.12", "python3", "python"):
            (folder / "bin" / name).symlink_to(python)
    return site


def link(site: Path) -> None:
    """Link every package of this machine into a folder; note which pins it has as they are."""
    here, wanted = packages(), pins()
    other = {
        name: here[name][0] for name, v in wanted.items() if name in here and here[name][0] != v
    }
    for folder in reversed(os.environ.get("MM_PACKAGES", "").split(":")):
        for one in sorted(Path(folder).iterdir()) if folder else ():
            target = site / one.name
            if one.suffix == ".pth" or one.name == "__pycache__":
                continue
            target.unlink(missing_ok=True)
            target.symlink_to(one)
    note(
        installs=len(wanted),
        another_version_here=other,
        not_here=sorted(name for name in wanted if name not in here),
    )


def apt() -> None:
    """Look whether packages are known."""
    if ARGUMENTS[:1] == ["install"]:
        names = [one for one in ARGUMENTS[1:] if not one.startswith("-")]
        unknown = [one for one in names if one not in DEBIAN]
        if unknown or not names:
            fail(f"unable to locate package {unknown}")
        absent = [one for one in names if not any(Path(path).exists() for path in DEBIAN[one])]
        note(installs=names, not_here=absent)
    elif ARGUMENTS[:1] != ["update"]:
        fail(f"unknown: {ARGUMENTS}")


def pip(arguments: list[str]) -> None:
    """Look at what is to be installed, which is uv alone; put it where a folder is named."""
    if arguments[:1] != ["install"]:
        fail(f"unknown: {arguments}")
    found = pins()
    note(installs=found)
    if "--target" in arguments:
        program = Path(option("--target")) / "bin" / "uv"
        program.parent.mkdir(parents=True)
        shutil.copy(__file__, program)


def uv() -> None:
    """Do as uv does, with this machine's packages; or be the real one."""
    if real := os.environ.get("MM_UV"):
        os.execv(real, [real, *ARGUMENTS])  # noqa: S606
    if ARGUMENTS[:1] == ["venv"]:
        if not os.access(option("--python"), os.X_OK):
            fail(f"no interpreter {option('--python')}")
        environment(Path(ARGUMENTS[-1]), option("--python"))
    elif ARGUMENTS[:2] == ["pip", "install"]:
        if "--target" in ARGUMENTS:
            site = Path(option("--target"))
            site.mkdir(parents=True)
        else:
            site = environment(Path(option("--python")))
        link(site)
    else:
        fail(f"unknown: {ARGUMENTS}")


if NAME == "apt-get":
    apt()
elif NAME == "pip":
    pip(ARGUMENTS)
elif NAME == "uv":
    uv()
elif ARGUMENTS[:2] == ["-m", "pip"]:
    pip(ARGUMENTS[2:])
else:
    engine = os.environ["MM_ENGINE"]
    os.execv(engine, [engine, *ARGUMENTS])  # noqa: S606
