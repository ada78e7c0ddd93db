// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.Reader;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** What the native layer believes of hvd.h, against the model of it that the C ABI is checked with. */
class LayoutTest {
    private static JsonObject model;

    @BeforeAll
    static void read() throws Exception {
        NativeLibrary.load();
        Path file = Path.of(System.getProperty("hvd.repository"), "capi", "abi", "hvd-1.api.json");
        try (Reader reader = Files.newBufferedReader(file)) {
            model = JsonParser.parseReader(reader).getAsJsonObject();
        }
    }

    private static int constant(String name) throws Exception {
        return RawConstants.class.getField(name).getInt(null);
    }

    @Test
    void structs() throws Exception {
        int fields = 0;
        for (Map.Entry<String, JsonElement> struct : model.getAsJsonObject("structs").entrySet()) {
            JsonObject facts = struct.getValue().getAsJsonObject();
            assertEquals(facts.get("size").getAsInt(), constant("SIZEOF_" + struct.getKey()), struct.getKey());
            for (JsonElement each : facts.getAsJsonArray("fields")) {
                String field = struct.getKey() + "_" + each.getAsJsonObject().get("name").getAsString();
                assertEquals(each.getAsJsonObject().get("offset").getAsInt(), constant("OFFSETOF_" + field), field);
                ++fields;
            }
        }
        assertTrue(fields > 40, "fields: " + fields);
    }

    @Test
    void constants() throws Exception {
        for (Map.Entry<String, JsonElement> each : model.getAsJsonObject("constants").entrySet()) {
            assertEquals(each.getValue().getAsInt(), constant(each.getKey()), each.getKey());
        }
    }

    @Test
    void functions() {
        Set<String> declared = Stream.of(RawJNI.class.getDeclaredMethods()).map(Method::getName)
                .filter(name -> name.startsWith("hvd_")).collect(Collectors.toCollection(TreeSet::new));
        assertEquals(new TreeSet<>(model.getAsJsonObject("functions").keySet()), declared);
    }

    /** Enums of Java that repeat numbers of the header have all of them, and the right ones. */
    @Test
    void enums() {
        JsonObject constants = model.getAsJsonObject("constants");
        Set<String> seen = new HashSet<>();
        for (Status status : Status.values()) {
            assertEquals(constants.get(status.nativeName()).getAsInt(), status.number());
            assertEquals(status.nativeName(), Native.text(Raw.hvd_status_name(status.number())));
            seen.add(status.nativeName());
        }
        for (DType dtype : DType.values()) {
            assertEquals(constants.get("HVD_" + dtype.name()).getAsInt(), dtype.number());
            assertEquals(dtype.bytes(), Raw.hvd_dtype_size(dtype.number()));
            assertEquals(dtype.nativeName(), Native.text(Raw.hvd_dtype_name(dtype.number())));
            seen.add("HVD_" + dtype.name());
        }
        for (ReduceOp op : ReduceOp.values()) {
            assertEquals(constants.get("HVD_" + op.name()).getAsInt(), op.number());
            seen.add("HVD_" + op.name());
        }
        for (Options.LogLevel level : Options.LogLevel.values()) {
            assertEquals(constants.get("HVD_LOG_" + level.name()).getAsInt(), level.ordinal());
            seen.add("HVD_LOG_" + level.name());
        }
        Set<String> all = new HashSet<>(constants.keySet());
        all.removeAll(seen);
        // Numbers with no enum of their own.
        assertEquals(Set.of("HVD_CPU", "HVD_CUDA", "HVD_MEMBERS_REMOVED", "HVD_MEMBERS_ADDED"), all);
    }

    /** Threads of this JVM that the library writes structs for agree with it about their sizes. */
    @Test
    void headerAndLibraryAreOfOneVersion() {
        assertEquals(Raw.HVD_VERSION_MAJOR, Raw.hvd_version() / 10000);
        assertTrue(Hvd.version().startsWith(Raw.HVD_VERSION_MAJOR + "."));
        assertTrue(NativeLibrary.origin().contains("libhvd"));
    }
}
