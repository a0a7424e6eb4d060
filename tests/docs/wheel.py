"""The package as people get it: `python -m tests.docs.wheel` builds it, installs it elsewhere and runs the README.

First without extras, where what needs none has to run; then with `agents`, where all of it has to.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

from tests.docs.blocks import ROOT, Block
from tests.docs.test_examples import EXAMPLES, NEEDS

_IN_SDIST = (
    "README.md",
    "docs/quickstart.md",
    "notebooks/01_quickstart.ipynb",
    "benchmarks/__main__.py",
    "tests/conftest.py",
)


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the source package, in a folder."""
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def check_contents(wheel: Path, source: Path) -> None:
    """The wheel holds the package alone, with its mark of types; the source package all that the work needs."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        described = archive.read(metadata).decode().partition("\n\n")[2]
    # An index shows the README by itself, without what stands beside it in the repository.
    assert "pip install langchain-sessions" in described
    assert re.findall(r"<\w+|\]\((?!https?:)", described) == []
    assert "langchain_sessions/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"langchain_sessions"}
    with tarfile.open(source) as packed:
        held = {name.partition("/")[2] for name in packed.getnames()}
    assert held.issuperset(_IN_SDIST), set(_IN_SDIST) - held


def check_examples(wheel: Path, folder: Path) -> None:
    """The README's examples, from an installed wheel."""
    python = folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
    venv.create(folder / "environment", with_pip=True)
    shown = [example for example in EXAMPLES if example.page == ROOT / "README.md"]
    for extra, wanted in (("", [each for each in shown if not _needs(each)]), ("[agents]", shown)):
        _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}{extra}")
        assert wanted, "an example of the README has to run without extras"
        for example in wanted:
            _run(str(python), "-W", "ignore", "-c", example.code, cwd=folder)
            print(f"{example.name} runs from the wheel{extra}")  # noqa: T201 - a command


def _needs(example: Block) -> bool:
    return any(sign in example.code for signs in NEEDS.values() for sign in signs)


def _run(*command: str, cwd: Path | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=cwd, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own commands


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        wheel_file, source_file = build(Path(made))
        check_contents(wheel_file, source_file)
        check_examples(wheel_file, Path(made))
