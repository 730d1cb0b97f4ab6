#!/usr/bin/env bash
# What builds the documentation site (docs/site): Sphinx with its theme, 60 MB. What tries the blocks
# of the documents is another thing: setup-docs.sh.
exec bash "$(dirname "${BASH_SOURCE[0]}")/setup-group.sh" site "what builds the site"
