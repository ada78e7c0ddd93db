// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Loads libhvdjni from the jar, and libhvd from, in this order: the property {@code hvd.library.path} (a file or a folder), the
 * environment's HVD_LIBRARY (a file), the folders of {@code java.library.path}, the jar, where the system's loader looks, and the
 * library of horovodrun, which names it in HVD_LAUNCHER_LIBRARY.
 */
final class NativeLibrary {
    private static final String FILE = "libhvd.so.1";
    private static final String FOLDER = "/io/hvd/native/linux-" + System.getProperty("os.arch") + "/";

    private static boolean loaded;
    private static String origin;

    private NativeLibrary() {}

    /** Loads once; a failure is told to every caller, who may have corrected it meanwhile. */
    static synchronized void load() {
        if (loaded) {
            return;
        }
        if (origin == null) {
            loadNative();
            origin = "";
        }
        List<String> tried = new ArrayList<>();
        for (Path place : named()) {
            String fault = open(place.toString());
            if (fault == null) {
                finish(place.toString());
                return;
            }
            throw new UnsatisfiedLinkError("hvd: cannot load " + place + ": " + fault);
        }
        for (String folder : System.getProperty("java.library.path", "").split(":")) {
            Path place = Path.of(folder, FILE);
            if (!folder.isEmpty() && Files.exists(place)) {
                String fault = open(place.toString());
                if (fault == null) {
                    finish(place.toString());
                    return;
                }
                tried.add(fault);
            }
        }
        if (NativeLibrary.class.getResource(FOLDER + FILE) != null) {
            String fault = fromJar(FILE, file -> open(file.toString()));
            if (fault == null) {
                finish("the jar");
                return;
            }
            tried.add(fault);
        }
        String fault = open(FILE);
        if (fault == null) {
            finish("the system's loader");
            return;
        }
        tried.add(fault);
        String launchers = System.getenv("HVD_LAUNCHER_LIBRARY");
        fault = launchers == null || launchers.isEmpty() ? "no launcher has named its own" : open(launchers);
        if (fault == null) {
            finish(launchers);
            return;
        }
        tried.add(fault);
        throw new UnsatisfiedLinkError("hvd: found no " + FILE + " by the property hvd.library.path, HVD_LIBRARY,"
                + " java.library.path, in the jar, by the system's loader or from horovodrun: " + String.join("; ", tried)
                + "; let HVD_LIBRARY name the file");
    }

    /** Where libhvd was found. */
    static synchronized String origin() {
        load();
        return origin;
    }

    private static List<Path> named() {
        List<Path> places = new ArrayList<>();
        String property = System.getProperty("hvd.library.path", "");
        String variable = System.getenv("HVD_LIBRARY");
        if (!property.isEmpty()) {
            Path place = Path.of(property);
            places.add(Files.isDirectory(place) ? place.resolve(FILE) : place);
        } else if (variable != null && !variable.isEmpty()) {
            places.add(Path.of(variable));
        }
        return places;
    }

    private static String open(String path) {
        byte[] fault = RawJNI.open(path.getBytes(StandardCharsets.UTF_8));
        return fault == null ? null : new String(fault, StandardCharsets.UTF_8);
    }

    private static void finish(String place) {
        loaded = true;
        origin = place;
    }

    private static void loadNative() {
        String fault = fromJar("libhvdjni.so", file -> {
            System.load(file.toString());
            return null;
        });
        if (fault != null) {
            throw new UnsatisfiedLinkError("hvd: " + fault);
        }
    }

    private interface Opening {
        String open(Path file);
    }

    /**
     * A file of the jar as a file of its own for the time it is opened. The name is new each time: the JVM gives one file to
     * one
     * class loader only.
     */
    private static String fromJar(String name, Opening opening) {
        try (InputStream input = NativeLibrary.class.getResourceAsStream(FOLDER + name)) {
            if (input == null) {
                return "the jar has no " + FOLDER + name;
            }
            Path folder = Files.createTempDirectory("hvd-jvm-");
            Path file = folder.resolve(name);
            try {
                Files.copy(input, file);
                return opening.open(file);
            } finally {
                Files.deleteIfExists(file);
                Files.deleteIfExists(folder);
            }
        } catch (IOException error) {
            return "cannot unpack " + name + " to " + System.getProperty("java.io.tmpdir") + ": " + error;
        }
    }
}
