"""Installs the peers in an environment of their own, so that nothing of theirs meets nothing of ours.

    python benchmarks/peers/install.py            # into .venv-peers

They need a Python that they support (3.11 at the time of writing): `--python python3.11`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parent.parent / ".venv-peers"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--into", type=Path, default=DEFAULT, help="where the environment goes")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to build it with")
    options = parser.parse_args()
    subprocess.run([options.python, "-m", "venv", str(options.into)], check=True)
    python = options.into / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "-r", str(HERE / "requirements.txt")], check=True)
    print(python)


if __name__ == "__main__":
    main()
