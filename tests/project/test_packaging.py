"""What is built and installed: the wheel, the source distribution, and the versions in the lock."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from tests.project.sources import PARTS, PRODUCT, ROOT, module_of

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")


def build(target: str, source: Path, out: Path) -> Path:
    """Build one distribution from a folder and return its file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(out)]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    (built,) = out.glob("*.whl" if target == "wheel" else "*.tar.gz")
    return built


def require_wheel(wheel: Path) -> None:
    """One name is installed, with all parts below it, once each: no tests, examples or tools."""
    names = zipfile.ZipFile(wheel).namelist()
    assert len(names) == len({*names})
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"panekeeper"}
    product = {f"{module_of(path).replace('.', '/')}.py" for path in PRODUCT if path.name != "__init__.py"}
    assert {*product, "panekeeper/py.typed", "panekeeper/framework/engine/session/log4j2.properties"} <= {*names}


def test_the_wheel_holds_its_packages_and_nothing_else(tmp_path: Path) -> None:
    """As it is built from the repository."""
    require_wheel(build("wheel", ROOT, tmp_path))


def test_the_source_distribution_holds_what_the_repository_holds(tmp_path: Path) -> None:
    """Tests, guides, examples, tools and the license are in it, nothing else is, and the same wheel comes out of it."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    built = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(built) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", built, "-C", tmp_path / "unpacked"], check=True)  # older 3.11 have no `filter`
    links = {f"panekeeper/{part}" for part in PARTS}  # a wheel needs none
    assert held - {"PKG-INFO"} == {name for name in tracked if (ROOT / name).exists()} - links
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    require_wheel(build("wheel", unpacked, tmp_path / "wheel"))


def requirements() -> list[Requirement]:
    """What users and developers install, for whichever reason, but for the tool that writes the lock."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    named = [Requirement(line) for lines in lists for line in lines if isinstance(line, str)]
    return [one for one in named if one.name not in {"panekeeper", "uv"}]


def locked(python: str) -> dict[str, str]:
    """The version of each package that the lock gives to a Python on Linux."""
    pins = [Requirement(line) for line in LOCK.splitlines() if re.match(r"[a-z0-9]", line)]
    machine = {"python_version": python, "python_full_version": f"{python}.0", "sys_platform": "linux"}
    fitting = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(machine)]
    assert len({pin.name for pin in fitting}) == len(fitting)
    return {pin.name: str(pin.specifier).removeprefix("==") for pin in fitting}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_fits_the_declared_requirements(python: str) -> None:
    """Each is in it, in a permitted version, for every Python; after a change: `make lock`."""
    pins = locked(python)
    machine = {"python_version": python, "python_full_version": f"{python}.0"}
    wanted = [one for one in requirements() if one.marker is None or one.marker.evaluate(machine)]
    wrong = [str(one) for one in wanted if not one.specifier.contains(pins.get(one.name, "0"))]
    assert wrong == []


def test_the_lock_names_no_place_to_install_from() -> None:
    """Where packages come from is the business of each machine."""
    assert re.findall(r"\S*://\S*|^ *--\S+", LOCK, re.MULTILINE) == []


def test_readers_of_the_metadata_find_who_what_and_where() -> None:
    """What a page of a package index shows."""
    project = PROJECT["project"]
    assert {"authors", "keywords", "classifiers", "urls", "license", "readme"} <= project.keys()
    assert {"Documentation", "Changelog"} <= project["urls"].keys()
