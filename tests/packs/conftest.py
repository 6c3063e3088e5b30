"""Tests of packs share the made-up documents and the places of the tests of stores."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "stores"))
