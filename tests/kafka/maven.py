"""Jars from Maven's repositories, by name, through its own client."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess

from tests.conftest import ROOT

CACHE = ROOT / "build" / "jars"

BROKER = ("org.apache.kafka:kafka_2.13:4.1.1",)
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
    "org.apache.kafka:kafka-clients:4.1.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
AVRO = ("org.apache.spark:spark-avro_2.13:4.2.0",)


class NoMavenError(Exception):
    """Why there are no jars."""


def java() -> str:
    """The java to run. Raises NoMavenError."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    if found is None:
        raise NoMavenError("there is no Java")
    return found


def jars(coordinates: tuple[str, ...], *, transitive: bool) -> list[str]:
    """The paths of jars and, if asked, of all that they need. Raises NoMavenError."""
    said = "\n".join((*coordinates, str(transitive)))
    known = CACHE / f"{hashlib.sha256(said.encode()).hexdigest()[:16]}.txt"
    if known.exists():
        paths = known.read_text("utf-8").strip().split(os.pathsep)
        if all(os.path.exists(path) for path in paths):
            return paths
    maven = shutil.which("mvn")
    if maven is None:
        raise NoMavenError("there is no Maven, which fetches the broker")
    CACHE.mkdir(parents=True, exist_ok=True)
    pom = CACHE / f"{known.stem}.{os.getpid()}.xml"
    pom.write_text(_pom(coordinates, transitive), "utf-8")
    found = known.with_suffix(f".{os.getpid()}")
    try:
        for offline in (["--offline"], []):  # what was fetched once needs no network
            command = [maven, *offline, "-q", "-B", "-f", str(pom), "dependency:build-classpath"]
            ran = subprocess.run([*command, f"-Dmdep.outputFile={found}"], capture_output=True, text=True)
            if ran.returncode == 0:
                os.replace(found, known)
                return known.read_text("utf-8").strip().split(os.pathsep)
    finally:
        pom.unlink()
    raise NoMavenError(f"Maven fetches no {coordinates[0]}: {ran.stdout[-300:]}{ran.stderr[-300:]}")


def _pom(coordinates: tuple[str, ...], transitive: bool) -> str:
    nothing = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    wanted = ""
    for one in coordinates:
        group, artifact, version = one.split(":")
        wanted += f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        wanted += f"<version>{version}</version>{'' if transitive else nothing}</dependency>"
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>jars</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{wanted}</dependencies></project>"
    )
