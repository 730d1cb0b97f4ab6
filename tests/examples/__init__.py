"""What stands in docs/examples does what its page says."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
EXAMPLES = REPOSITORY / "docs" / "examples"
