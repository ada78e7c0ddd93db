// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ErrorsTest {
    @Test
    void ranksThatDisagree() {
        List<String> texts = Team.of(2, hvd -> {
            HvdMismatchException error = assertThrows(HvdMismatchException.class,
                    () -> hvd.allreduce(new float[2 + hvd.rank()], OpOptions.named("x")));
            assertEquals(Status.MISMATCH, error.status());
            assertArrayEquals(new int[] {2}, hvd.allreduce(new int[] {1}, OpOptions.named("next")));
            return error.getMessage();
        });
        assertEquals(texts.get(0), texts.get(1));
        assertTrue(texts.get(0).startsWith("allreduce \"x\": shape differs"), texts.get(0));
    }

    @Test
    void anOperationInFlightIsNotTouchedByTheErrorOfAnother() {
        Team.of(2, hvd -> {
            // The first is in flight until rank 1 joins in, which it does when rank 0 has seen the second refused.
            if (hvd.rank() == 0) {
                CompletableFuture<float[]> first = hvd.allreduceAsync(new float[] {1}, OpOptions.named("once"));
                CompletableFuture<float[]> second = hvd.allreduceAsync(new float[] {1}, OpOptions.named("once"));
                CompletionException error = assertThrows(CompletionException.class, second::join);
                HvdCallException refused = assertInstanceOf(HvdCallException.class, error.getCause());
                assertEquals(Status.ALREADY_EXISTS, refused.status());
                hvd.barrier();
                assertEquals(2, first.join()[0]);
            } else {
                hvd.barrier();
                assertEquals(2, hvd.allreduce(new float[] {1}, OpOptions.named("once"))[0]);
            }
            return null;
        });
    }

    @Test
    void aMissingRankIsNamedAtTheTimeLimit() {
        Team.of(2, hvd -> {
            if (hvd.rank() == 0) {
                HvdTimeoutException error = assertThrows(HvdTimeoutException.class,
                        () -> hvd.allreduce(new int[1], OpOptions.named("late").timeout(Duration.ofMillis(100))));
                assertTrue(error.getMessage().contains("missing ranks 1 of 2"), error.getMessage());
            }
            hvd.barrier();
            return null;
        });
    }

    @Test
    void initNamesWhoHasNotCome() {
        HvdException error = assertThrows(HvdTimeoutException.class, () -> Hvd.init(new Options().rank(0).size(2)
                .rendezvous("mem://" + UUID.randomUUID()).timeout(Duration.ofMillis(100))));
        assertTrue(error.getMessage().contains("missing ranks 1 of 2"), error.getMessage());
    }

    @Test
    void aRankThatLeavesEndsTheOperationsOfOthers() {
        try (Team team = new Team(2)) {
            CompletableFuture<int[]> waiting = team.ranks.get(0).allreduceAsync(new int[1], OpOptions.named("alone"));
            team.ranks.get(1).close();
            CompletionException error = assertThrows(CompletionException.class, waiting::join);
            assertInstanceOf(HvdContextException.class, error.getCause());
            assertThrows(HvdContextException.class, () -> team.ranks.get(0).barrier());
            assertThrows(HvdShutDownException.class, () -> team.ranks.get(1).barrier());
        }
    }

    @Test
    void closeEndsWhatThisRankWaitsFor() {
        try (Team team = new Team(2)) {
            Hvd hvd = team.ranks.get(0);
            CompletableFuture<int[]> waiting = hvd.allreduceAsync(new int[1], OpOptions.named("alone"));
            hvd.close();
            Throwable cause = assertThrows(CompletionException.class, waiting::join).getCause();
            assertInstanceOf(HvdShutDownException.class, cause);
        }
    }

    /** Rank 1 is forgotten without close(); once the collector has found it, rank 0 learns that it has left. */
    @Test
    void aForgottenContextLeavesTheJob() throws Exception {
        List<Hvd> ranks = new ArrayList<>(new Team(2).ranks);
        Hvd kept = ranks.get(0);
        ranks.clear();
        CompletableFuture<int[]> waiting = kept.allreduceAsync(new int[1], OpOptions.named("alone"));
        CountDownLatch told = new CountDownLatch(1);
        waiting.whenComplete((result, error) -> told.countDown());
        boolean ended = false;
        for (int i = 0; i < 300 && !ended; ++i) {
            System.gc();
            ended = told.await(50, TimeUnit.MILLISECONDS);
        }
        assertTrue(ended, "the forgotten rank is still there");
        assertInstanceOf(HvdContextException.class, assertThrows(CompletionException.class, waiting::join).getCause());
        kept.close();
    }

    @Test
    void peerLostKnowsWhereThePeerWas() {
        HvdPeerLostException error = (HvdPeerLostException) HvdException.of(-60, 1, 0,
                "allreduce \"x\": rank 1 (host node7, pid 4711) was killed by signal 9 (SIGKILL)");
        assertEquals("node7", error.host().get());
        assertEquals(4711, error.pid().getAsLong());
        assertEquals(1, error.rank());
    }

    @Test
    void everyStatusHasItsClass() {
        for (Status status : Status.values()) {
            int number = status.number();
            Class<?> wanted = number > -1 || number == -80 ? HvdException.class
                    : number > -20 ? HvdCallException.class
                    : number > -40 ? HvdOperationException.class
                    : number > -60 ? HvdSetBrokenException.class : HvdContextException.class;
            HvdException error = HvdException.of(number, 3, 4, "text");
            assertTrue(wanted.isInstance(error), status::toString);
            assertEquals(status, error.status());
            assertEquals("text", error.getMessage());
            assertEquals(4, error.sysErrno());
        }
        assertEquals(Status.INTERNAL, HvdException.of(-77, -1, 0, "unknown").status());
    }

    @Test
    void theLogReachesItsConsumer() throws Exception {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Options options = new Options().rank(0).size(1).rendezvous("mem://" + UUID.randomUUID()).set("log_level", "debug")
                .log((level, rank, component, message) -> {
                    lines.add(level + " " + rank + " " + component + ": " + message);
                    throw new IllegalStateException("a consumer's own fault");
                });
        Thread.UncaughtExceptionHandler before = Thread.getDefaultUncaughtExceptionHandler();
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> { });
        try (Hvd hvd = Hvd.init(options)) {
            assertArrayEquals(new int[] {1}, hvd.allreduceAsync(new int[] {1}, OpOptions.DEFAULT).get(10, TimeUnit.SECONDS));
            assertTrue(lines.poll(10, TimeUnit.SECONDS) != null);
        } finally {
            Thread.setDefaultUncaughtExceptionHandler(before);
        }
    }

    @Test
    void aStallIsTold() throws Exception {
        BlockingQueue<String> lines = new LinkedBlockingQueue<>();
        Options common = new Options().size(2).rendezvous("mem://" + UUID.randomUUID()).set("stall_check_time_seconds", "1")
                .timeout(Duration.ofSeconds(Team.scaled(30)))
                .log((level, rank, component, message) -> lines.add(level + " " + rank + " " + message));
        CompletableFuture<Hvd> other = CompletableFuture.supplyAsync(() -> Hvd.init(common.copy().rank(1)));
        try (Hvd first = Hvd.init(common.copy().rank(0)); Hvd second = other.join()) {
            CompletableFuture<int[]> waiting = first.allreduceAsync(new int[] {1}, OpOptions.named("late"));
            String line = lines.poll(Team.scaled(30), TimeUnit.SECONDS);
            assertTrue(line != null && line.startsWith("WARN 0 ") && line.contains("late"), line);
            second.allreduce(new int[] {2}, OpOptions.named("late"));
            assertArrayEquals(new int[] {3}, waiting.join());
        }
    }

    @Test
    void optionsAndMetrics() {
        Team.of(1, hvd -> {
            assertEquals("30", hvd.option("op_timeout"));
            assertThrows(HvdCallException.class, () -> hvd.option("nonsense"));
            hvd.barrier();
            assertTrue(hvd.metrics().size() > 5);
            hvd.allreduce(new float[10], OpOptions.named("recorded"));
            Histogram sizes = hvd.histograms().get("operation_size");
            assertEquals("bytes 1 40 1", sizes.unit + " " + sizes.count + " " + sizes.sum + " " + sizes.buckets[6]);
            assertTrue(Hvd.metricHelp("operation_size").contains("operation") && Hvd.metricHelp("nonsense") == null);
            List<OperationRecord> records = hvd.records(0);
            OperationRecord last = records.get(records.size() - 1);
            assertEquals("recorded allreduce 40", last.name + " " + last.kind + " " + last.bytes);
            assertArrayEquals(new long[] {10}, last.shape);
            assertTrue(last.submitted > 0 && last.ended >= last.submitted);
            assertTrue(hvd.records(last.number).isEmpty());
            assertEquals(1, hvd.world().arrivals(last.use).length);
            java.nio.file.Path path = java.nio.file.Files.createTempFile("timeline", ".json");
            hvd.startTimeline(path.toString(), true);
            hvd.allreduce(new float[10], OpOptions.named("on the timeline"));
            hvd.stopTimeline();
            assertTrue(java.nio.file.Files.readString(path).contains("\"on the timeline\""));
            java.nio.file.Files.delete(path);
            assertThrows(HvdCallException.class, () -> hvd.startTimeline("/no/such/folder/t.json", false));
            assertTrue(Hvd.optionTable().stream().anyMatch(row -> row.get(0).equals("op_timeout")));
            assertTrue(Hvd.hasFeature("shm"));
            assertEquals(0, hvd.localRank());
            return null;
        });
    }

    @Test
    void objectsSayWhatTheyAre() {
        Team.of(1, hvd -> {
            assertEquals("OpOptions[]", OpOptions.DEFAULT.toString());
            assertEquals("OpOptions[name=g, reduce=AVERAGE, in=process set of ranks [0], root=1, prescale=0.5, postscale=2.0,"
                    + " priority=3, timeout=PT1.5S]", OpOptions.named("g").reduce(ReduceOp.AVERAGE).in(hvd.world()).root(1)
                    .prescale(0.5).postscale(2).priority(3).timeout(Duration.ofMillis(1500)).toString());
            assertEquals("OpOptions[timeout=none]", OpOptions.DEFAULT.timeout(Duration.ofSeconds(-1)).toString());
            assertEquals("Options[rank=0, size=2, rendezvous=mem://x, op_timeout=30]",
                    new Options().rank(0).size(2).rendezvous("mem://x").set("op_timeout", "30").toString());
            assertEquals("rank 0 of 1, local 0 of 1, cross 0 of 1", hvd.topology().toString());
            assertEquals("rank 0 of 1", hvd.toString());
            assertEquals("float32[2, 1] in a float[]", Tensor.of(new float[2], 2, 1).toString());
            return null;
        });
    }
}
