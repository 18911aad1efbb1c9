"""Setting up on machines of many kinds, played with stand-ins for their commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"

Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder that is the whole PATH: the machine has the commands put there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "awk", "cat", "dirname", "env", "grep", "ls"):
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


def test_help_does_not_run_the_demo(tmp_path: Path) -> None:
    demo = [sys.executable, str(SCRIPTS.parent / "demo" / "monitor.py"), "--help"]
    shown = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "build/demo" in shown
    assert list(tmp_path.iterdir()) == []


def put(folder: Path, name: str, text: str) -> Path:
    command = folder / name
    command.parent.mkdir(parents=True, exist_ok=True)
    command.write_text(f"#!/bin/sh\n{text}\n")
    command.chmod(0o755)
    return command


def java(home: Path, version: str) -> str:
    return (
        f"printf '%s\\n' 'Property settings:' '    java.home = {home}' '    java.specification.version = {version}' >&2"
    )


def run(commands: Path, script: str, *arguments: str, **environment: str) -> Ran:
    return subprocess.run(
        ["sh", SCRIPTS / script, *arguments],
        env={"PATH": str(commands), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_java_home_wins(commands: Path, tmp_path: Path) -> None:
    put(tmp_path / "home" / "bin", "java", java(tmp_path / "home", "21"))
    put(commands, "java", java(tmp_path / "other", "17"))
    ran = run(commands, "find-java.sh", JAVA_HOME=str(tmp_path / "home"))
    assert (ran.returncode, ran.stdout) == (0, f"{tmp_path / 'home'}\n")


def test_a_java_that_is_too_old_is_passed_over(commands: Path, tmp_path: Path) -> None:
    put(tmp_path / "old" / "bin", "java", java(tmp_path / "old", "1.8"))
    put(commands, "java", java(tmp_path / "new", "17"))
    ran = run(commands, "find-java.sh", JAVA_HOME=str(tmp_path / "old"))
    assert ran.stdout == f"{tmp_path / 'new'}\n"


def test_python_of_any_name_is_found(commands: Path) -> None:
    put(commands, "python3", "exit 1")  # too old
    put(commands, "python3.12", "exit 0")
    assert run(commands, "find-python.sh").stdout == "python3.12\n"


def test_root_installs_the_first_package_that_there_is(commands: Path, tmp_path: Path) -> None:
    put(commands, "id", "echo 0")
    put(commands, "apt-get", f'echo "$@" >>{tmp_path}/log')
    put(commands, "apt-cache", '[ "$2" = java-17 ]')
    ran = run(commands, "install.sh", "Java", "dnf:java", "apt-get:java-21", "apt-get:java-17")
    assert (ran.returncode, ran.stdout) == (0, "Installing Java: apt-get install -y java-17\n")
    assert (tmp_path / "log").read_text().splitlines() == ["update -qq", "install -y java-17"]


def test_others_are_told_what_to_type(commands: Path) -> None:
    put(commands, "id", "echo 1000")
    put(commands, "apt-get", "exit 1")
    put(commands, "apt-cache", "exit 0")
    ran = run(commands, "install.sh", "Java", "apt-get:java-21")
    assert ran.returncode == 1
    assert "    sudo apt-get install -y java-21\n" in ran.stdout


def test_where_no_manager_is_known_that_is_said(commands: Path) -> None:
    ran = run(commands, "install.sh", "Java", "apt-get:java-21")
    assert ran.returncode == 1
    assert ran.stdout == "Java is missing. Install it\nand run make again.\n"
