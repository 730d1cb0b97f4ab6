"""For all tests: no example of a property has to be done in a given time.

The machines that run these tests are shared, and a Raspberry Pi is twenty times slower than some.
"""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("tidegate", deadline=None)
settings.load_profile("tidegate")
