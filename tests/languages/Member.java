// SPDX-License-Identifier: Apache-2.0
import io.hvd.Collectives;
import io.hvd.DType;
import io.hvd.Hvd;
import io.hvd.HvdException;
import io.hvd.OpOptions;
import io.hvd.ProcessSet;
import io.hvd.ReduceOp;
import io.hvd.Tensor;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.zip.CRC32;

/** The Java rank of a job whose ranks are of several languages; member.py says what it does. */
public class Member {
    private static final List<String> AGAIN = List.of("allreduce-f32-sum", "allreduce-f64-avg", "allreduce-i64-max", "allgather-f32",
            "reducescatter-f32");

    private final Hvd hvd;
    private final int rank;
    private final int size;

    private Member(Hvd hvd) {
        this.hvd = hvd;
        this.rank = hvd.rank();
        this.size = hvd.size();
    }

    private int value(int i) {
        return ((rank + 1) * 7 + i * 3) % 251;
    }

    private float[] floats(int count) {
        float[] made = new float[count];
        for (int i = 0; i < count; ++i) {
            made[i] = value(i);
        }
        return made;
    }

    private double[] doubles(int count) {
        return IntStream.range(0, count).mapToDouble(this::value).toArray();
    }

    private int[] ints(int count) {
        return IntStream.range(0, count).map(this::value).toArray();
    }

    private static byte[] bytes(Object result) {
        ByteBuffer to = ByteBuffer.allocate(8 * java.lang.reflect.Array.getLength(result)).order(ByteOrder.LITTLE_ENDIAN);
        if (result instanceof float[] array) {
            for (float each : array) {
                to.putFloat(each);
            }
        } else if (result instanceof double[] array) {
            for (double each : array) {
                to.putDouble(each);
            }
        } else if (result instanceof int[] array) {
            for (int each : array) {
                to.putInt(each);
            }
        } else if (result instanceof long[] array) {
            for (long each : array) {
                to.putLong(each);
            }
        } else {
            to.put((byte[]) result);
        }
        return java.util.Arrays.copyOf(to.array(), to.position());
    }

    private void show(String label, List<?> results) {
        CRC32 checksum = new CRC32();
        for (Object each : results) {
            checksum.update(bytes(each instanceof Tensor<?> tensor ? tensor.storage() : each));
        }
        System.out.printf("rank=%d %s %08x%n", rank, label, checksum.getValue());
    }

    private static OpOptions named(String name, ReduceOp op) {
        return OpOptions.named(name).reduce(op);
    }

    private List<?> product(String name) {
        float[] given = new float[5];
        for (int i = 0; i < given.length; ++i) {
            given[i] = 1 + (rank + i) % 3;
        }
        return List.of(hvd.allreduce(given, named(name, ReduceOp.PRODUCT)));
    }

    private List<?> alltoall(String name) {
        long[] splits = IntStream.range(0, size).mapToLong(j -> (rank + j) % 3).toArray();
        int rows = (int) java.util.Arrays.stream(splits).sum();
        Collectives.Received<Tensor<int[]>> received = hvd.alltoall(Tensor.of(ints(rows), rows, 1), splits, OpOptions.named(name));
        return List.of(received.data());
    }

    private List<?> broadcast(String name) {
        byte[] given = new byte[4096];
        for (int i = 0; i < given.length; ++i) {
            given[i] = (byte) value(i);
        }
        return List.of(hvd.broadcast(Tensor.of(given, DType.UINT8, given.length), OpOptions.named(name).root(1)));
    }

    private Map<String, Function<String, List<?>>> operations() {
        Map<String, Function<String, List<?>>> all = new LinkedHashMap<>();
        all.put("allreduce-f32-sum", name -> {
            float[] given = floats(1000);
            for (int i = 0; i < given.length; ++i) {
                given[i] /= 8;
            }
            return List.of(hvd.allreduce(given, named(name, ReduceOp.SUM)));
        });
        all.put("allreduce-f64-avg", name -> List.of(
                hvd.allreduce(java.util.Arrays.stream(doubles(257)).map(each -> each / 3).toArray(), named(name, ReduceOp.AVERAGE))));
        all.put("allreduce-i64-max", name -> List.of(
                hvd.allreduce(IntStream.range(0, 33).mapToLong(this::value).toArray(), named(name, ReduceOp.MAX))));
        all.put("allreduce-i32-min", name -> List.of(hvd.allreduce(ints(33), named(name, ReduceOp.MIN))));
        all.put("allreduce-f32-product", this::product);
        all.put("allreduce-f32-scaled", name -> List.of(
                hvd.allreduce(floats(64), named(name, ReduceOp.SUM).prescale(0.5).postscale(3.0))));
        all.put("grouped", name -> hvd.groupedAllreduce(List.of(floats(1), floats(10), floats(100)), named(name, ReduceOp.SUM)));
        all.put("allgather-f32", name -> List.of(
                hvd.allgather(Tensor.of(floats(3 * (rank + 1)), rank + 1, 3), OpOptions.named(name))));
        all.put("broadcast-u8", this::broadcast);
        all.put("alltoall-i32", this::alltoall);
        all.put("reducescatter-f32", name -> List.of(
                hvd.reducescatter(Tensor.of(floats(2 * (2 * size + 1)), 2 * size + 1, 2), named(name, ReduceOp.SUM))));
        all.put("barrier", name -> {
            hvd.barrier(OpOptions.named(name));
            return List.of();
        });
        return all;
    }

    private void setOfEvenRanks() {
        ProcessSet even = hvd.createProcessSet(IntStream.range(0, size).filter(each -> each % 2 == 0).toArray());
        if (even.included()) {
            String label = "set-allreduce-f64";
            show(label, List.of(hvd.allreduce(doubles(100), named(label, ReduceOp.SUM).in(even))));
        }
        even.destroy();
    }

    private void outOfOrder() {
        Map<String, CompletableFuture<float[]>> futures = new HashMap<>();
        for (String label : rank % 2 == 1 ? List.of("async-b", "async-a") : List.of("async-a", "async-b")) {
            futures.put(label, hvd.allreduceAsync(floats(10), named(label, ReduceOp.SUM)));
        }
        for (String label : List.of("async-a", "async-b")) {
            show(label, List.of(futures.get(label).join()));
        }
    }

    private void die(int victim) throws Exception {
        try {
            hvd.barrier(OpOptions.named("before-death"));
            if (rank == victim) {
                System.out.flush();
                new ProcessBuilder("kill", "-KILL", Long.toString(ProcessHandle.current().pid())).start().waitFor();
            }
            hvd.allreduce(floats(10), named("after-death", ReduceOp.SUM));
        } catch (HvdException error) {
            System.out.printf("rank=%d error %s%n", rank, error.getMessage());
        }
    }

    private void run() throws Exception {
        Map<String, Function<String, List<?>>> operations = operations();
        operations.forEach((label, operation) -> show(label, operation.apply(label)));
        setOfEvenRanks();
        outOfOrder();
        for (String label : AGAIN) {
            show("again-" + label, operations.get(label).apply(label));
        }
        String victim = System.getenv("HVD_TEST_DIE");
        if (victim != null) {
            die(Integer.parseInt(victim));
        }
        System.out.printf("rank=%d done%n", rank);
    }

    public static void main(String[] arguments) throws Exception {
        try (Hvd hvd = Hvd.init()) {
            new Member(hvd).run();
        }
    }
}
