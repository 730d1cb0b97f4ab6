#!/usr/bin/env bash
# What writes the SBOM of a release, and the schemas by which tests look at compose files and
# workflows: 25 MiB.
exec bash "$(dirname "${BASH_SOURCE[0]}")/setup-group.sh" release "what writes the SBOM of a release"
