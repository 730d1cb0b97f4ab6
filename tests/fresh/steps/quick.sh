cd ~/tidegate
unset PYTHONUNBUFFERED
PYTEST_ADDOPTS=-rs make quick
