"""What the package promises: how many names it exports, and how many of them a type checker knows for sure.

    python -m benchmarks.exported

Fails where there are more names than `MOST`, or where one has no sure type.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = "langchain_sessions"
MOST = 700


def verified() -> dict[str, Any]:
    """The checker's report on a copy of the package: inside the tree it sees sources, not an installed package."""
    with tempfile.TemporaryDirectory() as folder:
        copy, cwd = Path(folder, "library"), Path(folder, "empty")
        cwd.mkdir()
        # The suites are for authors of stores, who inherit from them; nobody reads their names.
        shutil.copytree(ROOT / PACKAGE, copy / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "testing"))
        scripts = sysconfig.get_path("scripts")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
            "PYTHONPATH": str(copy),
            "VIRTUAL_ENV": sys.prefix,
        }
        command = [str(Path(scripts, "pyright")), "--verifytypes", PACKAGE, "--ignoreexternal", "--outputjson"]
        # It ends with 1 as long as one type is unsure.
        answer = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False)  # noqa: S603 - ours
    return json.loads(answer.stdout)["typeCompleteness"]


def main() -> int:
    """Print the figures; 1 where they are not as promised."""
    report = verified()
    exported = [symbol for symbol in report["symbols"] if symbol["isExported"]]
    unsure = [symbol for symbol in exported if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]]
    print(f"{len(exported)} names exported, at most {MOST}; {report['completenessScore']:.2%} with a sure type")
    for symbol in unsure:
        print(symbol["name"], *(said["message"].splitlines()[0] for said in symbol["diagnostics"]), sep=": ")
    return int(not 0 < len(exported) <= MOST or bool(unsure))


if __name__ == "__main__":
    raise SystemExit(main())
