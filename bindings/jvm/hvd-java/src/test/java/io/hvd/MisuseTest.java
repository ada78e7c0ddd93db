// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MisuseTest {
    @TempDir
    Path folder;

    private String survive(String... options) throws Exception {
        Path log = folder.resolve("log");
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(options));
        command.addAll(List.of("-Xmx256m", "--enable-native-access=ALL-UNNAMED", "-cp", System.getProperty("java.class.path"), "io.hvd.Misuse"));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log.toFile()).directory(folder.toFile())
                .start();
        boolean ended = process.waitFor(120, TimeUnit.SECONDS);
        process.destroyForcibly();
        String output = Files.readString(log);
        assertTrue(ended, () -> "still running after 120 s: " + output);
        assertEquals(0, process.exitValue(), output);
        assertTrue(output.contains("survived "), output);
        return output;
    }

    @Test
    void aJvmThatChecksEveryCallFindsNothing() throws Exception {
        String output = survive("-Xcheck:jni");
        for (String word : List.of("WARNING", "FATAL", "hs_err")) {
            assertTrue(!output.contains(word), output);
        }
    }

    @Test
    void heapsThatAreMovedAllTheTime() throws Exception {
        survive("-XX:+UseParallelGC", "-Xmn2m");
    }
}
