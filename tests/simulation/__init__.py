"""Worlds: the production core among model sensors, a model broker and bad networks, from one seed.

`world.py` joins the parts, `plan.py` says what a seed decides, `watch.py` and `downlink_watch.py`
hold the promises of docs/guarantees.md. `python -m tests.simulation SEED --trace` replays a world.
"""
