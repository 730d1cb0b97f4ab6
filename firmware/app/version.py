"""The number of this application, higher with each one that is published as an update.

`python -m firmware.image --version N` writes its own in the place of this one.
"""

NUMBER = 1
