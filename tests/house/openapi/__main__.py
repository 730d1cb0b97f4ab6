"""Prints the document."""

from __future__ import annotations

import json
import sys

from tests.house.openapi.document import document

sys.stdout.write(json.dumps(document(), indent=1, ensure_ascii=False) + "\n")
