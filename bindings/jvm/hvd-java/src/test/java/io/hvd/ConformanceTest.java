// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Runs all of tests/vectors through the Java API, one thread per rank; none is left out. */
class ConformanceTest {
    /** Where the tensors stand; each vector runs in all ways that its operation has. */
    private enum Way { ARRAYS, DIRECT_BUFFERS, HEAP_BUFFERS, ARRAYS_IN_PLACE, DIRECT_BUFFERS_IN_PLACE, FUTURES }

    private static final Map<Integer, Team> TEAMS = new TreeMap<>();

    @AfterAll
    static void close() {
        TEAMS.values().forEach(Team::close);
    }

    @TestFactory
    Stream<DynamicTest> vectors() {
        List<Vector> vectors = Vector.all();
        assertTrue(vectors.size() > 100);
        return vectors.stream().flatMap(vector -> Stream.of(Way.values()).filter(way -> possible(vector, way))
                .map(way -> DynamicTest.dynamicTest(vector + ", " + way, () -> run(vector, way))));
    }

    private static boolean possible(Vector vector, Way way) {
        String op = vector.op(0);
        boolean tensors = !op.equals("barrier") && !op.equals("join");
        boolean placed = vector.expectStatus() == null && (op.equals("allreduce") || op.equals("broadcast")) && !vector.grouped();
        switch (way) {
            case ARRAYS:
            case FUTURES:
                return true;
            case ARRAYS_IN_PLACE:
            case DIRECT_BUFFERS_IN_PLACE:
                return placed;
            default:
                return tensors && vector.expectStatus() == null;
        }
    }

    private static void run(Vector vector, Way way) {
        Team team = TEAMS.computeIfAbsent(vector.size(), Team::new);
        List<List<String>> faults = team.run(hvd -> new Run(hvd, vector, way).run());
        List<String> all = new ArrayList<>();
        faults.forEach(all::addAll);
        assertEquals(List.of(), all);
    }

    /** One rank's part in one run of one vector. */
    private static final class Run {
        private final Hvd hvd;
        private final Vector vector;
        private final Way way;
        private final int rank;
        private final List<String> faults = new ArrayList<>();

        Run(Hvd hvd, Vector vector, Way way) {
            this.hvd = hvd;
            this.vector = vector;
            this.way = way;
            this.rank = hvd.rank();
        }

        private void fault(String text) {
            faults.add("rank " + rank + ": " + text);
        }

        List<String> run() {
            ProcessSet set = vector.set() == null ? null : hvd.createProcessSet(vector.set());
            OpOptions options = vector.options(rank).name(vector + " " + way).in(set);
            if (vector.member(rank) && !vector.joins(rank)) {
                operate(options);
            }
            if (vector.anyJoined()) {
                int last = hvd.join(OpOptions.DEFAULT.in(set));
                if (vector.joins(last)) {
                    fault("rank " + last + " joined early but is named as the last");
                }
            }
            if (vector.expectStatus() != null) {
                int total = hvd.allreduce(new int[] {rank + 1}, OpOptions.named("after " + vector))[0];
                if (total != vector.size() * (vector.size() + 1) / 2) {
                    fault("the next operation gave " + total);
                }
            }
            if (set != null) {
                set.destroy();
            }
            return faults;
        }

        private void operate(OpOptions options) {
            List<Tensor<?>> results;
            try {
                results = call(options);
            } catch (HvdException error) {
                judge(error);
                return;
            } catch (RuntimeException error) {
                if (!(error.getCause() instanceof HvdException)) {
                    throw error;
                }
                judge((HvdException) error.getCause());
                return;
            }
            if (vector.expectStatus() != null) {
                fault("expected " + vector.expectStatus() + ", got a result");
                return;
            }
            for (int i = 0; i < results.size(); ++i) {
                Tensor<?> result = results.get(i);
                String found = vector.difference(rank, i, new Vector.Array(result.dtype(), result.shape(), bytes(result)));
                if (!found.isEmpty()) {
                    fault("tensor " + i + ": " + found);
                }
            }
        }

        private void judge(HvdException error) {
            if (vector.expectStatus() == null) {
                throw error;
            }
            if (!error.status().nativeName().equals(vector.expectStatus())) {
                fault("expected " + vector.expectStatus() + ", got " + error.status() + ": " + error.getMessage());
            }
            for (String part : vector.expectMessageHas()) {
                if (!error.getMessage().contains(part)) {
                    fault("message lacks " + part + ": " + error.getMessage());
                }
            }
        }

        private List<Tensor<?>> call(OpOptions options) {
            List<Tensor<?>> inputs = new ArrayList<>();
            vector.input(rank).forEach(array -> inputs.add(tensor(array)));
            boolean later = way == Way.FUTURES;
            String op = vector.op(rank);
            if (vector.grouped()) {
                switch (op) {
                    case "allreduce":
                        return later ? hvd.groupedAllreduceAsync(inputs, options).join() : hvd.groupedAllreduce(inputs, options);
                    case "allgather":
                        return later ? hvd.groupedAllgatherAsync(inputs, options).join() : hvd.groupedAllgather(inputs, options);
                    default:
                        return later ? hvd.groupedReducescatterAsync(inputs, options).join()
                                : hvd.groupedReducescatter(inputs, options);
                }
            }
            if (op.equals("barrier")) {
                if (later) {
                    hvd.barrierAsync(options).join();
                } else {
                    hvd.barrier(options);
                }
                return List.of();
            }
            if (op.equals("join")) {
                int last = later ? hvd.joinAsync(options).join() : hvd.join(options);
                if (last < 0 || last >= vector.size()) {
                    fault("join returned " + last);
                }
                return List.of();
            }
            return List.of(one(op, inputs.get(0), options, later));
        }

        private Tensor<?> one(String op, Tensor<?> input, OpOptions options, boolean later) {
            boolean inPlace = way == Way.ARRAYS_IN_PLACE || way == Way.DIRECT_BUFFERS_IN_PLACE;
            switch (op) {
                case "allreduce":
                    return inPlace ? hvd.allreduceInPlace(input, options)
                            : later ? hvd.allreduceAsync(input, options).join() : hvd.allreduce(input, options);
                case "broadcast":
                    return inPlace ? hvd.broadcastInPlace(input, options)
                            : later ? hvd.broadcastAsync(input, options).join() : hvd.broadcast(input, options);
                case "allgather":
                    return later ? hvd.allgatherAsync(input, options).join() : hvd.allgather(input, options);
                case "gather":
                    return later ? hvd.gatherAsync(input, options).join() : hvd.gather(input, options);
                case "reducescatter":
                    return later ? hvd.reducescatterAsync(input, options).join() : hvd.reducescatter(input, options);
                default:
                    long[] splits = vector.splits(rank);
                    Collectives.Received<?> received = later ? hvd.alltoallAsync(input, splits, options).join()
                            : hvd.alltoall(input, splits, options);
                    if (vector.expectSplits(rank) != null && !Arrays.equals(vector.expectSplits(rank), received.splits())) {
                        fault("received splits " + Arrays.toString(received.splits()));
                    }
                    return (Tensor<?>) received.data();
            }
        }

        private Tensor<?> tensor(Vector.Array array) {
            ByteBuffer bytes = ByteBuffer.wrap(array.bytes).order(ByteOrder.LITTLE_ENDIAN);
            if (way == Way.DIRECT_BUFFERS || way == Way.DIRECT_BUFFERS_IN_PLACE) {
                ByteBuffer outside = ByteBuffer.allocateDirect(array.bytes.length).order(ByteOrder.nativeOrder());
                return Tensor.of(outside.put(bytes).flip(), array.dtype, array.shape);
            }
            if (way == Way.HEAP_BUFFERS) {
                return Tensor.of(bytes.duplicate().order(ByteOrder.nativeOrder()), array.dtype, array.shape);
            }
            int count = array.bytes.length / array.dtype.bytes();
            Object typed;
            switch (array.dtype) {
                case FLOAT32:
                    bytes.asFloatBuffer().get((float[]) (typed = new float[count]));
                    break;
                case FLOAT64:
                    bytes.asDoubleBuffer().get((double[]) (typed = new double[count]));
                    break;
                case INT32:
                    bytes.asIntBuffer().get((int[]) (typed = new int[count]));
                    break;
                case INT64:
                    bytes.asLongBuffer().get((long[]) (typed = new long[count]));
                    break;
                default:
                    if (array.dtype.bytes() == 2) {
                        bytes.asShortBuffer().get((short[]) (typed = new short[count]));
                    } else {
                        typed = array.bytes;
                    }
                    break;
            }
            return Tensor.of(typed, array.dtype, array.shape);
        }

        private static byte[] bytes(Tensor<?> tensor) {
            ByteBuffer to = ByteBuffer.allocate((int) tensor.bytes()).order(ByteOrder.LITTLE_ENDIAN);
            Object storage = tensor.storage();
            if (storage instanceof ByteBuffer) {
                to.put(((ByteBuffer) storage).duplicate());
            } else if (storage instanceof float[]) {
                to.asFloatBuffer().put((float[]) storage);
            } else if (storage instanceof double[]) {
                to.asDoubleBuffer().put((double[]) storage);
            } else if (storage instanceof int[]) {
                to.asIntBuffer().put((int[]) storage);
            } else if (storage instanceof long[]) {
                to.asLongBuffer().put((long[]) storage);
            } else if (storage instanceof short[]) {
                to.asShortBuffer().put((short[]) storage);
            } else {
                to.put((byte[]) storage);
            }
            return to.array();
        }
    }
}
