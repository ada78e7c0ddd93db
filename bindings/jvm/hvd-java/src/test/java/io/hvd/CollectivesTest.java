// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class CollectivesTest {
    private static ByteBuffer direct(int bytes) {
        return ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
    }

    @Test
    void arraysOfEveryType() {
        Team.of(2, hvd -> {
            int r = hvd.rank();
            assertArrayEquals(new float[] {1, 5}, hvd.allreduce(new float[] {r, 2 + r}, ReduceOp.SUM));
            assertArrayEquals(new double[] {0.5}, hvd.allreduce(new double[] {r}, ReduceOp.AVERAGE));
            assertArrayEquals(new int[] {1, 9}, hvd.allreduce(new int[] {r, 9}, ReduceOp.MAX));
            assertArrayEquals(new long[] {-1L << 40}, hvd.allreduce(new long[] {-(1L << 40) * r}, ReduceOp.MIN));
            assertArrayEquals(new short[] {6}, hvd.allreduce(new short[] {(short) (2 + r)}, ReduceOp.PRODUCT));
            assertArrayEquals(new byte[] {3}, hvd.allreduce(new byte[] {(byte) (1 + r)}, ReduceOp.SUM));
            assertArrayEquals(new boolean[] {true, false}, hvd.allreduce(new boolean[] {r == 1, false}, ReduceOp.SUM));
            return null;
        });
    }

    @Test
    void heapBuffersCountFromPositionToLimit() {
        Team.of(2, hvd -> {
            float[] array = {9, 1, 2, 9};
            FloatBuffer buffer = FloatBuffer.wrap(array).position(1).limit(3).slice();
            hvd.allreduceInPlace(buffer, OpOptions.reducing(ReduceOp.SUM));
            assertArrayEquals(new float[] {9, 2, 4, 9}, array);
            for (Buffer given : List.of(DoubleBuffer.wrap(new double[] {1}), IntBuffer.wrap(new int[] {1}),
                    LongBuffer.wrap(new long[] {1}), ShortBuffer.wrap(new short[] {1}), ByteBuffer.wrap(new byte[] {1}))) {
                Buffer sum = hvd.allreduce(given, ReduceOp.SUM);
                assertEquals(1, sum.remaining());
                Number first = (Number) java.lang.reflect.Array.get(sum.array(), 0);
                assertEquals(2, first.intValue(), given::toString);
            }
            return null;
        });
    }

    @Test
    void directBuffersAreUsedWhereTheyAre() {
        Team.of(2, hvd -> {
            FloatBuffer buffer = direct(64).asFloatBuffer();
            buffer.put(3, hvd.rank() + 1);
            buffer.position(2).limit(5);
            assertSame(buffer, hvd.allreduceInPlace(buffer, OpOptions.named("x")));
            assertEquals(3, buffer.get(3));
            FloatBuffer fresh = hvd.allreduce(buffer, OpOptions.named("y"));
            assertTrue(fresh.isDirect() && fresh.order() == ByteOrder.nativeOrder());
            assertEquals(6, fresh.get(1));
            assertEquals(3, fresh.remaining());
            return null;
        });
    }

    @Test
    void buffersInTheOtherOrderAreCopied() {
        Team.of(2, hvd -> {
            DoubleBuffer big = ByteBuffer.allocateDirect(16).asDoubleBuffer();
            big.put(0, 1.5).put(1, hvd.rank());
            hvd.allreduceInPlace(big, OpOptions.DEFAULT);
            assertEquals(3.0, big.get(0));
            assertEquals(1.0, big.get(1));
            IntBuffer heap = ByteBuffer.allocate(8).asIntBuffer();
            heap.put(1, 7 + hvd.rank());
            assertEquals(15, hvd.allreduce(heap, ReduceOp.SUM).get(1));
            FloatBuffer readOnly = FloatBuffer.wrap(new float[] {hvd.rank()}).asReadOnlyBuffer();
            assertEquals(1, hvd.allreduce(readOnly, ReduceOp.SUM).get(0));
            return null;
        });
    }

    @Test
    void halfPrecisionInShortsAndAnythingInByteBuffers() {
        Team.of(2, hvd -> {
            short one = 0x3c00;
            Tensor<short[]> half = Tensor.of(new short[] {one}, DType.FLOAT16, 1);
            assertEquals(0x4000, hvd.allreduce(half, ReduceOp.SUM).storage()[0]);
            ByteBuffer bytes = direct(8);
            bytes.putDouble(0, 0.25);
            assertEquals(0.5, hvd.allreduce(Tensor.of(bytes, DType.FLOAT64, 1), ReduceOp.SUM).storage().getDouble(0));
            return null;
        });
    }

    @Test
    void gatherBroadcastScatter() {
        Team.of(3, hvd -> {
            int r = hvd.rank();
            float[] mine = new float[2 * (r + 1)];
            Arrays.fill(mine, r);
            Tensor<float[]> rows = hvd.allgather(Tensor.of(mine, r + 1, 2), OpOptions.named("g"));
            assertArrayEquals(new long[] {6, 2}, rows.shape());
            assertArrayEquals(new float[] {0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2}, rows.storage());
            assertArrayEquals(new int[] {40, 41}, hvd.broadcast(new int[] {20 * r, 20 * r + 1}, OpOptions.named("b").root(2)));
            double[] own = {r};
            hvd.broadcastInPlace(own, OpOptions.named("c").root(1));
            assertArrayEquals(new double[] {1}, own);
            long[] part = hvd.reducescatter(new long[] {1, 2, 3, 4}, OpOptions.named("s"));
            assertArrayEquals(r == 0 ? new long[] {3, 6} : new long[] {r == 1 ? 9 : 12}, part);
            Collectives.Received<int[]> received = hvd.alltoall(new int[] {r, r, r, r}, new long[] {1, 2, 1}, OpOptions.named("a"));
            assertArrayEquals(r == 1 ? new int[] {0, 0, 1, 1, 2, 2} : new int[] {0, 1, 2}, received.data());
            assertArrayEquals(r == 1 ? new long[] {2, 2, 2} : new long[] {1, 1, 1}, received.splits());
            hvd.barrier();
            assertTrue(hvd.join() < 3);
            return null;
        });
    }

    @Test
    void directResultsOfUnknownSize() {
        Team.of(2, hvd -> {
            IntBuffer buffer = direct(4).asIntBuffer().put(0, hvd.rank());
            IntBuffer all = hvd.allgather(buffer, OpOptions.DEFAULT);
            assertTrue(all.isDirect());
            assertEquals(IntBuffer.wrap(new int[] {0, 1}), all);
            return null;
        });
    }

    @Test
    void groups() {
        Team.of(2, hvd -> {
            List<float[]> sums = hvd.groupedAllreduce(List.of(new float[] {1}, new float[] {2, hvd.rank()}), OpOptions.named("g"));
            assertArrayEquals(new float[] {4, 1}, sums.get(1));
            List<Tensor<?>> mixed = List.of(Tensor.of(new int[] {1}), Tensor.of(direct(4).asFloatBuffer()));
            hvd.groupedAllreduceInPlace(mixed, OpOptions.named("m"));
            assertEquals(2, ((int[]) mixed.get(0).storage())[0]);
            assertEquals(2, hvd.groupedAllgather(List.of(new byte[1], new byte[0]), OpOptions.named("h")).get(0).length);
            assertEquals(1, hvd.groupedReducescatter(List.of(new int[2]), OpOptions.named("r")).get(0).length);
            assertThrows(HvdCallException.class, () -> hvd.groupedAllreduce(List.<int[]>of(), OpOptions.named("none")));
            return null;
        });
    }

    @Test
    void futures() {
        Team.of(2, hvd -> {
            OpOptions a = OpOptions.named("a");
            OpOptions b = OpOptions.named("b");
            float[] given = {hvd.rank()};
            // Each rank submits in its own order.
            CompletableFuture<float[]> first = hvd.allreduceAsync(given, hvd.rank() == 0 ? a : b);
            CompletableFuture<float[]> second = hvd.allreduceInPlaceAsync(new float[] {1}, hvd.rank() == 0 ? b : a);
            assertEquals(1, first.get().length);
            assertEquals(1, second.get().length);
            // What hangs on a future may itself wait.
            int sum = hvd.allreduceAsync(new int[] {1}, OpOptions.named("c"))
                    .thenApply(one -> one[0] + hvd.allreduceAsync(new int[] {1}, OpOptions.named("d")).join()[0]
                            + hvd.allreduce(new int[] {1}, OpOptions.named("e"))[0]).get();
            assertEquals(6, sum);
            assertEquals(2, hvd.allgatherAsync(new long[1], OpOptions.named("f")).get().length);
            assertEquals(2, hvd.alltoallAsync(new long[2], null, OpOptions.named("g")).get().splits().length);
            assertEquals(5, hvd.broadcastAsync(new int[] {5}, OpOptions.named("h")).get()[0]);
            assertEquals(1, hvd.reducescatterAsync(new int[2], OpOptions.named("i")).get().length);
            hvd.barrierAsync(OpOptions.DEFAULT).get();
            assertTrue(hvd.joinAsync(OpOptions.DEFAULT).get() >= 0);
            return null;
        });
    }

    @Test
    void scaling() {
        Team.of(2, hvd -> {
            OpOptions scaled = OpOptions.named("s").prescale(0.5).postscale(3.0);
            assertArrayEquals(new float[] {12}, hvd.allreduce(new float[] {4}, scaled));
            return null;
        });
    }

    @Test
    void processSets() {
        Team.of(3, hvd -> {
            ProcessSet outer = hvd.createProcessSet(2, 0);
            assertArrayEquals(new int[] {0, 2}, outer.ranks());
            assertArrayEquals(new int[] {0, outer.id()}, hvd.processSetIds());
            assertEquals(hvd.rank() == 1 ? -1 : hvd.rank() / 2, outer.rank());
            if (outer.included()) {
                assertArrayEquals(new int[] {2}, hvd.allreduce(new int[] {1}, OpOptions.named("x").in(outer)));
            } else {
                HvdException error = assertThrows(HvdException.class,
                        () -> hvd.allreduce(new int[] {1}, OpOptions.named("x").in(outer)));
                assertTrue(error.status().number() < 0);
            }
            ProcessSet found = hvd.findProcessSet(outer.id());
            assertEquals(2, found.size());
            hvd.barrier();
            outer.destroy();
            assertEquals(-1, outer.id());
            assertThrows(HvdException.class, () -> hvd.allreduce(new int[] {1}, OpOptions.named("y").in(outer)));
            assertThrows(HvdException.class, outer::destroy);
            assertArrayEquals(new int[] {0}, hvd.processSetIds());
            return null;
        });
    }
}
