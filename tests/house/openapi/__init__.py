"""Writes docs/openapi.json: what the gateway answers over HTTP, for programs (OpenAPI 3.1).

    python -m tests.house.openapi >docs/openapi.json

Where an answer is made of dataclasses its schema is made of their types, so that a field that is
added is in the document. tests/admin/test_openapi.py holds the rest against a real server.
"""
