// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.FloatBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Calls everything wrongly, from many sides, in a JVM that looks at each JNI call. Prints {@code survived N refusals}. A
 * program of
 * its own, because what it looks for is the end of its JVM.
 */
final class Misuse {
    private static int refusals;

    private Misuse() {}

    private interface Action {
        void run() throws Exception;
    }

    private static void refused(Action action) {
        try {
            action.run();
        } catch (NullPointerException | IllegalArgumentException | HvdException | CompletionException
                | ArrayStoreException | IllegalStateException | java.nio.ReadOnlyBufferException error) {
            ++refusals;
            return;
        } catch (Exception error) {
            throw new AssertionError("unexpected kind of error", error);
        }
        throw new AssertionError("not refused");
    }

    private static final Object[] NO_TENSORS = {null, "text", 3, new Object[0], new char[1], new String[] {"a"}, new float[0][0],
        CharBuffer.allocate(1), Float.valueOf(1), List.of()};

    private static void badTensors(Hvd hvd) {
        for (Object bad : NO_TENSORS) {
            refused(() -> hvd.allreduce(bad, OpOptions.DEFAULT));
            refused(() -> hvd.allreduceInPlace(bad, OpOptions.DEFAULT));
            refused(() -> hvd.allreduceAsync(bad, OpOptions.DEFAULT).join());
            refused(() -> hvd.allgather(bad, OpOptions.DEFAULT));
            refused(() -> hvd.broadcast(bad, OpOptions.DEFAULT));
            refused(() -> hvd.alltoall(bad, null, OpOptions.DEFAULT));
            refused(() -> hvd.reducescatter(bad, OpOptions.DEFAULT));
            refused(() -> hvd.groupedAllreduce(Arrays.asList(new float[1], bad), OpOptions.DEFAULT));
            refused(() -> hvd.groupedAllgatherAsync(Arrays.asList(bad, bad), OpOptions.DEFAULT).join());
            refused(() -> Tensor.of(bad));
        }
        float[] five = new float[5];
        refused(() -> Tensor.of(five, 2, 3));
        refused(() -> Tensor.of(five, -5));
        refused(() -> Tensor.of(five, Long.MAX_VALUE, Long.MAX_VALUE));
        refused(() -> Tensor.of(five, 1L << 32, 1L << 32));
        refused(() -> Tensor.of(five, (long[]) null));
        refused(() -> Tensor.of(five, DType.INT32, 5));
        refused(() -> Tensor.of(five, (DType) null, 5));
        refused(() -> Tensor.of(new byte[6], DType.FLOAT16, 3));
        refused(() -> Tensor.of(ByteBuffer.allocate(6), DType.FLOAT16, 3));
        refused(() -> Tensor.of(ByteBuffer.allocate(7).order(ByteOrder.nativeOrder()), DType.FLOAT16, 3));
        refused(() -> hvd.allreduceInPlace(FloatBuffer.allocate(3).asReadOnlyBuffer(), OpOptions.DEFAULT));
        refused(() -> hvd.allreduceInPlace(ByteBuffer.allocateDirect(3).asReadOnlyBuffer(), OpOptions.DEFAULT));
        refused(() -> hvd.broadcastInPlaceAsync(ByteBuffer.allocateDirect(3).asReadOnlyBuffer(), OpOptions.DEFAULT).join());
        refused(() -> hvd.allreduce(Tensor.of(new float[2]), Tensor.of(new float[3]), OpOptions.DEFAULT));
        refused(() -> hvd.allreduce(Tensor.of(new float[2]), Tensor.of(new int[2]), OpOptions.DEFAULT));
        refused(() -> hvd.allreduce(Tensor.of(new float[2]), null, OpOptions.DEFAULT));
        ByteBuffer shared = ByteBuffer.allocateDirect(32).order(ByteOrder.nativeOrder());
        ByteBuffer head = shared.duplicate().limit(16);
        ByteBuffer tail = shared.duplicate().position(8).limit(24);
        refused(() -> hvd.allreduce(Tensor.of(head), Tensor.of(tail), OpOptions.DEFAULT));
        long[] deep = new long[40];
        Arrays.fill(deep, 1);
        refused(() -> hvd.allreduce(Tensor.of(new float[1], deep), OpOptions.DEFAULT));
    }

    private static void badOptions(Hvd hvd, Hvd other) {
        float[] one = {1};
        refused(() -> hvd.allreduce(one, (OpOptions) null));
        refused(() -> hvd.allreduce(one, (ReduceOp) null));
        refused(() -> OpOptions.named("a\0b"));
        refused(() -> hvd.allreduce(one, OpOptions.named("n".repeat(5000))));
        refused(() -> hvd.allreduce(one, OpOptions.named("n".repeat(5_000_000))));
        refused(() -> hvd.broadcast(one, OpOptions.DEFAULT.root(-1)));
        refused(() -> hvd.broadcast(one, OpOptions.DEFAULT.root(Integer.MAX_VALUE)));
        refused(() -> hvd.allreduce(one, OpOptions.DEFAULT.in(other.world())));
        refused(() -> hvd.allreduce(new int[1], ReduceOp.ADASUM));
        refused(() -> hvd.allreduce(new boolean[1], ReduceOp.AVERAGE));
        refused(() -> hvd.alltoall(one, new long[0], OpOptions.DEFAULT));
        refused(() -> hvd.alltoall(one, new long[100], OpOptions.DEFAULT));
        refused(() -> hvd.alltoall(one, new long[] {-1}, OpOptions.DEFAULT));
        refused(() -> hvd.alltoall(one, new long[] {Long.MAX_VALUE}, OpOptions.DEFAULT));
        refused(() -> hvd.reducescatter(Tensor.of(one, new long[0]), OpOptions.DEFAULT));
        refused(() -> hvd.groupedAllreduce(null, OpOptions.DEFAULT));
        refused(() -> hvd.groupedAllreduce(List.<float[]>of(), OpOptions.DEFAULT));
        refused(() -> hvd.createProcessSet((int[]) null));
        refused(() -> hvd.createProcessSet());
        refused(() -> hvd.createProcessSet(-1));
        refused(() -> hvd.createProcessSet(0, 0));
        refused(() -> hvd.createProcessSet(new int[100_000]));
        refused(() -> hvd.findProcessSet(77));
        refused(() -> hvd.world().destroy());
        refused(() -> hvd.option(null));
        refused(() -> hvd.option("no such option"));
        refused(() -> hvd.option("x".repeat(100_000)));
        refused(() -> hvd.setOption("op_timeout", null));
        refused(() -> hvd.setOption("op_timeout", "soon"));
        refused(() -> hvd.setOption("\uD800", "\uDFFF"));
        refused(() -> Hvd.init(null));
        refused(() -> Hvd.init(new Options().rendezvous("nonsense://x").rank(0).size(2)));
        refused(() -> Hvd.init(new Options().rank(5).size(2).rendezvous("mem://misuse")));
        refused(() -> Hvd.init(new Options().size(-3)));
        refused(() -> Hvd.init(new Options().set("no_such_option", "1")));
        refused(() -> Hvd.init(new Options().rank(0).size(2).rendezvous("mem://alone").timeout(Duration.ofMillis(50))));
        Hvd.hasFeature("\u00e9\uD83D\uDE00 no such feature");
    }

    /** Memory of an arena (JDK 22 and later) that has been given back: its buffer still has an address. */
    private static void closedArena(Hvd hvd) throws ReflectiveOperationException {
        if (Runtime.version().feature() < 22) {
            return;
        }
        Class<?> type = Class.forName("java.lang.foreign.Arena");
        Object arena = type.getMethod("ofShared").invoke(null);
        Object segment = type.getMethod("allocate", long.class, long.class).invoke(arena, 1L << 24, 64L);
        ByteBuffer buffer = (ByteBuffer) Class.forName("java.lang.foreign.MemorySegment").getMethod("asByteBuffer").invoke(segment);
        Tensor<ByteBuffer> tensor = Tensor.of(buffer);
        hvd.allreduceInPlace(tensor, OpOptions.DEFAULT);
        type.getMethod("close").invoke(arena);
        refused(() -> hvd.allreduceInPlace(tensor, OpOptions.DEFAULT));
        refused(() -> hvd.allreduceInPlaceAsync(buffer, OpOptions.DEFAULT).join());
    }

    /** Buffers that nobody keeps, arrays that the collector moves, while operations run. */
    private static void pressure(Hvd hvd) {
        List<CompletableFuture<?>> running = new ArrayList<>();
        for (int round = 0; round < 300; ++round) {
            FloatBuffer buffer = ByteBuffer.allocateDirect(40_000).order(ByteOrder.nativeOrder()).asFloatBuffer();
            buffer.put(9_999, 2);
            hvd.allreduceInPlaceAsync(buffer, OpOptions.named("forgotten " + round));
            float[] array = new float[ThreadLocalRandom.current().nextInt(1, 20_000)];
            Arrays.fill(array, round);
            int expected = round;
            running.add(hvd.allreduceAsync(array, OpOptions.named("array " + round)).thenAccept(sum -> {
                for (float each : sum) {
                    if (each != expected) {
                        throw new AssertionError(each + " instead of " + expected);
                    }
                }
            }));
            if (round % 25 == 0) {
                System.gc();
            }
            running.get(round).cancel(round % 7 == 0);
        }
        for (CompletableFuture<?> each : running) {
            if (!each.isCancelled()) {
                each.join();
            }
        }
    }

    private static void afterClose() {
        Hvd hvd = Hvd.init(new Options().rank(0).size(1).rendezvous("mem://after-close"));
        ProcessSet set = hvd.world();
        CompletableFuture<?> last = hvd.allreduceAsync(new float[1000], OpOptions.named("last"));
        hvd.close();
        hvd.close();
        try {
            last.join();
        } catch (CompletionException error) {
            ++refusals;
        }
        refused(() -> hvd.allreduce(new float[1], OpOptions.DEFAULT));
        refused(() -> hvd.allreduceAsync(new float[1], OpOptions.DEFAULT));
        refused(() -> hvd.createProcessSet(0));
        refused(() -> hvd.findProcessSet(0));
        refused(() -> hvd.metrics());
        refused(() -> hvd.option("op_timeout"));
        refused(() -> hvd.barrier());
        refused(() -> hvd.join());
        refused(hvd::check);
        refused(set::id);
        refused(set::destroy);
    }

    /** A thread closes while others operate, again and again. */
    private static void closeUnderOthers() throws InterruptedException {
        for (int round = 0; round < 20; ++round) {
            Hvd hvd = Hvd.init(new Options().rank(0).size(1).rendezvous("mem://race" + round));
            List<Thread> users = new ArrayList<>();
            for (int i = 0; i < 4; ++i) {
                String name = "t" + i;
                Thread user = new Thread(() -> {
                    try {
                        for (;;) {
                            hvd.allreduce(new float[100], OpOptions.named(name));
                            hvd.allreduceAsync(new float[10], OpOptions.named(name + "a")).join();
                        }
                    } catch (HvdShutDownException | CompletionException expected) {
                        return;
                    }
                });
                user.start();
                users.add(user);
            }
            Thread.sleep(2);
            hvd.close();
            for (Thread user : users) {
                user.join();
            }
        }
    }

    /** Contexts that nobody closes. */
    private static void forgotten() {
        for (int round = 0; round < 10; ++round) {
            Hvd.init(new Options().rank(0).size(1).rendezvous("mem://forgotten" + round));
            System.gc();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Buffer kept = ByteBuffer.allocateDirect(8);
        try (Hvd hvd = Hvd.init(new Options().rank(0).size(1).rendezvous("mem://misuse-a"));
                Hvd other = Hvd.init(new Options().rank(0).size(1).rendezvous("mem://misuse-b"))) {
            badTensors(hvd);
            badOptions(hvd, other);
            closedArena(hvd);
            pressure(hvd);
            hvd.allreduce(kept, OpOptions.DEFAULT);
            float[] still = hvd.allreduce(new float[] {4}, OpOptions.named("still"));
            if (still[0] != 4) {
                throw new AssertionError("the next operation gave " + still[0]);
            }
        }
        afterClose();
        closeUnderOthers();
        forgotten();
        System.out.println("survived " + refusals + " refusals");
    }
}
