"""What a link raises when the operator, not a peer, has to do something."""

from __future__ import annotations


class LinkError(OSError):
    """The world refused. The text is one sentence for the operator that says what to do."""


class NotAllowedError(LinkError):
    """Of a folder that another user has."""
