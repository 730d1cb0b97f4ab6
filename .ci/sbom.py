"""What the gateway is made of, for those who look for known faults in it: a CycloneDX document.

It has the packages of .ci/requirements-gateway.lock, which are in the .deb and the image, each with
its version, the machines for which it is taken, and the sha256 of each file that set-up may take.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

sys.path.insert(0, str(Path(__file__).resolve().parent))

from cyclonedx.contrib.hash.factories import HashTypeFactory
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from deb import DATE, locked, project
from packageurl import PackageURL
from packaging.requirements import Requirement


def sbom() -> str:
    """As JSON, the same for each build of a commit."""
    ours = project()
    purl = PackageURL("pypi", None, str(ours["name"]), str(ours["version"]))
    root = Component(
        name=str(ours["name"]),
        version=str(ours["version"]),
        type=ComponentType.APPLICATION,
        description=str(ours["description"]),
        licenses=[DisjunctiveLicense(id=str(ours["license"]))],
        purl=purl,
        bom_ref=str(purl),
    )
    parts = [component(requirement, hashes) for requirement, hashes in locked()]
    bom = Bom(components=parts, serial_number=uuid5(NAMESPACE_URL, str(purl)))
    bom.metadata.component = root
    bom.metadata.timestamp = datetime.fromtimestamp(int(os.environ[DATE]), UTC)
    bom.register_dependency(root, parts)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)


def component(requirement: Requirement, hashes: list[str]) -> Component:
    version = str(requirement.specifier).removeprefix("==")
    purl = PackageURL("pypi", None, requirement.name, version)
    files = ExternalReference(
        type=ExternalReferenceType.DISTRIBUTION,
        url=XsUri(str(purl)),
        comment="one of these files is taken",
        hashes=map(HashTypeFactory().from_composite_str, hashes),
    )
    return Component(
        name=requirement.name,
        version=version,
        type=ComponentType.LIBRARY,
        purl=purl,
        bom_ref=str(purl),
        external_references=[files],
        properties=[Property(name="tidegate:only-where", value=str(requirement.marker))]
        if requirement.marker
        else [],
    )
