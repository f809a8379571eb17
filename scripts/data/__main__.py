"""Corpora: what is there, conversions of licensed ones, and the embedded one (prepare.py)."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from prepare import main

if __name__ == "__main__":
    sys.exit(main())
