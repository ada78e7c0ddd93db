#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What Java's API costs over its native layer, in JSON lines. The program stands inside the package, because the native layer is hidden there.
# Needs `mvn -f bindings/jvm/pom.xml install -pl :hvd-jvm,:hvd-java -DskipTests` and HVD_LIBRARY.
output=$(dirname "$0")/../../build-jvm/hvd-java
exec java --enable-native-access=ALL-UNNAMED -cp "$output/classes:$output/test-classes" io.hvd.Overhead "$@"
