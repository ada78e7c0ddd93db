// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import java.util.zip.CRC32;

/** One conformance vector of tests/vectors: what each rank gives, and what it must get. Scala's runner uses it too. */
public final class Vector {
    /** Bytes with a dtype and a shape. */
    public static final class Array {
        public final DType dtype;
        public final long[] shape;
        public final byte[] bytes;

        public Array(DType dtype, long[] shape, byte[] bytes) {
            this.dtype = dtype;
            this.shape = shape;
            this.bytes = bytes;
        }
    }

    private final JsonObject json;

    private Vector(JsonObject json) {
        this.json = json;
    }

    /** All vectors of all files; a file without any is an error. */
    public static List<Vector> all() {
        Path folder = Path.of(System.getProperty("hvd.repository"), "tests", "vectors");
        List<Vector> found = new ArrayList<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : (Iterable<Path>) files.filter(path -> path.toString().endsWith(".json")).sorted()::iterator) {
                try (Reader reader = Files.newBufferedReader(file)) {
                    JsonArray vectors = JsonParser.parseReader(reader).getAsJsonObject().getAsJsonArray("vectors");
                    if (vectors.isEmpty()) {
                        throw new IllegalStateException(file + ": no vectors");
                    }
                    vectors.forEach(each -> found.add(new Vector(each.getAsJsonObject())));
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return found;
    }

    public String name() {
        return json.get("name").getAsString();
    }

    public int size() {
        return json.get("size").getAsInt();
    }

    @Override
    public String toString() {
        return json.get("op").getAsString() + " " + name() + ", " + size() + " ranks";
    }

    /** A member of the vector as this rank has it; null if it is absent. */
    private JsonElement of(int rank, String member) {
        JsonElement own = json.has("per_rank") ? json.getAsJsonArray("per_rank").get(rank).getAsJsonObject().get(member) : null;
        return own != null ? own : json.get(member);
    }

    public String op(int rank) {
        return of(rank, "op").getAsString();
    }

    public boolean grouped() {
        return json.has("grouped") && json.get("grouped").getAsBoolean();
    }

    /** The ranks of the set, or null. */
    public int[] set() {
        return json.has("set") ? ints(json.get("set")) : null;
    }

    public boolean member(int rank) {
        return !json.getAsJsonArray("input").get(rank).isJsonNull();
    }

    public boolean anyJoined() {
        return json.has("joined");
    }

    public boolean joins(int rank) {
        return json.has("joined") && contains(ints(json.get("joined")), rank);
    }

    private static boolean contains(int[] numbers, int number) {
        for (int each : numbers) {
            if (each == number) {
                return true;
            }
        }
        return false;
    }

    /** The options without a name and a set. */
    public OpOptions options(int rank) {
        JsonElement reduce = of(rank, "reduce");
        JsonElement root = of(rank, "root");
        JsonElement prescale = of(rank, "prescale");
        JsonElement postscale = of(rank, "postscale");
        return OpOptions.reducing(reduce == null ? ReduceOp.SUM : ReduceOp.valueOf(reduce.getAsString().toUpperCase(Locale.ROOT)))
                .root(root == null ? 0 : root.getAsInt())
                .prescale(prescale == null ? 1 : prescale.getAsDouble())
                .postscale(postscale == null ? 1 : postscale.getAsDouble());
    }

    public String expectStatus() {
        return json.has("expect_status") ? json.get("expect_status").getAsString() : null;
    }

    public List<String> expectMessageHas() {
        List<String> parts = new ArrayList<>();
        json.getAsJsonArray("expect_message_has").forEach(each -> parts.add(each.getAsString()));
        return parts;
    }

    /** The rows to send, or null. */
    public long[] splits(int rank) {
        JsonElement all = json.get("splits");
        return all == null || all.getAsJsonArray().get(rank).isJsonNull() ? null
                : numbers(all.getAsJsonArray().get(rank));
    }

    public long[] expectSplits(int rank) {
        JsonElement all = json.get("expect_splits");
        return all == null ? null : numbers(all.getAsJsonArray().get(rank));
    }

    public List<Array> input(int rank) {
        List<Array> arrays = new ArrayList<>();
        for (JsonElement each : tensors(json.getAsJsonArray("input").get(rank))) {
            JsonObject tensor = each.getAsJsonObject();
            arrays.add(new Array(dtype(tensor), shape(tensor), bytes(tensor)));
        }
        return arrays;
    }

    private static Iterable<JsonElement> tensors(JsonElement one) {
        return one.isJsonArray() ? one.getAsJsonArray() : List.of(one);
    }

    private DType dtype(JsonObject tensor) {
        JsonElement own = tensor.get("dtype");
        return DType.valueOf((own != null ? own : json.get("dtype")).getAsString().toUpperCase(Locale.ROOT));
    }

    private static long[] shape(JsonObject tensor) {
        return numbers(tensor.get("shape"));
    }

    private static long[] numbers(JsonElement list) {
        long[] found = new long[list.getAsJsonArray().size()];
        for (int i = 0; i < found.length; ++i) {
            found[i] = list.getAsJsonArray().get(i).getAsLong();
        }
        return found;
    }

    private static int[] ints(JsonElement list) {
        int[] found = new int[list.getAsJsonArray().size()];
        for (int i = 0; i < found.length; ++i) {
            found[i] = list.getAsJsonArray().get(i).getAsInt();
        }
        return found;
    }

    private byte[] bytes(JsonObject tensor) {
        if (!tensor.has("fill")) {
            return HexFormat.of().parseHex(tensor.get("hex").getAsString());
        }
        long[] fill = numbers(tensor.get("fill"));
        int count = 1;
        for (long extent : shape(tensor)) {
            count = Math.toIntExact(count * extent);
        }
        DType dtype = dtype(tensor);
        ByteBuffer to = ByteBuffer.allocate(count * dtype.bytes()).order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < count; ++i) {
            put(to, dtype, (fill[0] * i + fill[1]) % fill[2] + fill[3]);
        }
        return to.array();
    }

    private static void put(ByteBuffer to, DType dtype, long value) {
        switch (dtype) {
            case UINT8:
            case INT8:
                to.put((byte) value);
                break;
            case UINT16:
            case INT16:
                to.putShort((short) value);
                break;
            case INT32:
                to.putInt((int) value);
                break;
            case INT64:
                to.putLong(value);
                break;
            case FLOAT16:
                to.putShort(half(value));
                break;
            case BFLOAT16:
                to.putShort((short) (Float.floatToRawIntBits(value) >>> 16)); // exact: 8 bits suffice for fills
                break;
            case FLOAT32:
                to.putFloat(value);
                break;
            case FLOAT64:
                to.putDouble(value);
                break;
            default:
                throw new IllegalStateException("no fill for " + dtype);
        }
    }

    /** Exact for the small integers of fills. */
    private static short half(long value) {
        if (value == 0) {
            return 0;
        }
        if (Math.abs(value) > 2048) {
            throw new IllegalStateException("fill too large for float16: " + value);
        }
        int bits = Float.floatToRawIntBits(value);
        return (short) ((bits >>> 16 & 0x8000) | ((bits >>> 23 & 0xff) - 127 + 15) << 10 | bits >>> 13 & 0x3ff);
    }

    /** Empty, or how the index-th result of a rank differs from what is expected. */
    public String difference(int rank, int index, Array actual) {
        JsonElement all = json.getAsJsonArray("expect").get(rank);
        JsonObject expected = (all.isJsonArray() ? all.getAsJsonArray().get(index) : all).getAsJsonObject();
        DType dtype = dtype(expected);
        if (dtype != actual.dtype || !java.util.Arrays.equals(shape(expected), actual.shape)) {
            return "got " + actual.dtype + java.util.Arrays.toString(actual.shape) + ", expected " + dtype + expected.get("shape");
        }
        if (expected.has("crc32")) {
            CRC32 crc = new CRC32();
            crc.update(actual.bytes);
            return crc.getValue() == expected.get("crc32").getAsLong() ? "" : "crc32 " + crc.getValue();
        }
        byte[] wanted = HexFormat.of().parseHex(expected.get("hex").getAsString());
        boolean bitwise = json.has("bitwise") && json.get("bitwise").getAsBoolean();
        long ulp = bitwise || !expected.has("ulp") ? -1 : expected.get("ulp").getAsLong();
        int width = dtype.bytes();
        boolean good = wanted.length == actual.bytes.length;
        for (int at = 0; good && at < wanted.length; at += width) {
            good = close(dtype, ByteBuffer.wrap(wanted, at, width), ByteBuffer.wrap(actual.bytes, at, width), ulp);
        }
        return good ? "" : "got " + HexFormat.of().formatHex(actual.bytes) + ", expected " + expected.get("hex").getAsString();
    }

    /** ulp -1: the same bits only. */
    private static boolean close(DType dtype, ByteBuffer wanted, ByteBuffer actual, long ulp) {
        if (wanted.equals(actual)) {
            return true;
        }
        int mantissa = dtype == DType.FLOAT16 ? 10 : dtype == DType.BFLOAT16 ? 7 : dtype == DType.FLOAT32 ? 23
                : dtype == DType.FLOAT64 ? 52 : 0;
        if (mantissa == 0 || ulp < 0) {
            return false;
        }
        long left = placeOnLine(wanted, mantissa);
        long right = placeOnLine(actual, mantissa);
        if (left == Long.MAX_VALUE || right == Long.MAX_VALUE) {
            return left == right;
        }
        return ulp > 0 && Math.abs(left - right) <= ulp; // -0 and 0 differ
    }

    /** A floating element as a number on a line where neighbours differ by one; NaN is the greatest. */
    private static long placeOnLine(ByteBuffer element, int mantissa) {
        int bits = element.remaining() * 8;
        long pattern = 0;
        for (int i = element.remaining() - 1; i >= 0; --i) {
            pattern = pattern << 8 | element.get(element.position() + i) & 0xff;
        }
        long sign = 1L << bits - 1;
        long magnitude = pattern & sign - 1;
        long infinity = sign - 1 >>> mantissa << mantissa;
        if (magnitude > infinity) {
            return Long.MAX_VALUE;
        }
        return (pattern & sign) != 0 ? -magnitude : magnitude;
    }
}
