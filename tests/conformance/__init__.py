"""MQTT-SN 1.2 as data: what each datagram gets in each state, and what the specification asks for.

`matrix.txt` has the answers, `specification.txt` the requirements with their tests, from which
`python -m tests.conformance` writes docs/conformance.md.
"""
