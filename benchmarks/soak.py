"""Hours of random use: the state machine of the contract, many times longer, on every store; all of the tampering."""

from __future__ import annotations

import argparse
import os
import sys

import pytest


def main() -> int:
    """Run the machine with as many times the usual examples as asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=100, help="how many times the ordinary run's examples")
    given = parser.parse_args()
    os.environ["LANGCHAIN_SESSIONS_SOAK"] = str(given.times)
    os.environ["LANGCHAIN_SESSIONS_DRAWS"] = "soak"
    return int(
        pytest.main(
            ["tests/contract/test_machine.py", "tests/faults/test_tampering.py", "-q", "-p", "no:cacheprovider"]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
