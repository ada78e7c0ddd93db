// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Ranks on threads of which few run at a time: those of the common pool, and virtual ones where the JDK has them. The JVM of the
 * tests has one place for each kind, so a wait that keeps it lets nobody else come.
 */
class WaitingTest {
    private static final int OPERATIONS = 20;

    /** A place where threads are scarce. */
    static final class Scarce {
        final String name;
        final ExecutorService threads;

        Scarce(String name, ExecutorService threads) {
            this.name = name;
            this.threads = threads;
        }

        @Override
        public String toString() {
            return name;
        }
    }

    static List<Scarce> places() throws ReflectiveOperationException {
        List<Scarce> places = new ArrayList<>(List.of(new Scarce("common pool", ForkJoinPool.commonPool()),
                new Scarce("pool of one", new ForkJoinPool(1))));
        if (Runtime.version().feature() >= 21) {
            places.add(new Scarce("virtual threads",
                    (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null)));
        }
        return places;
    }

    private static <R> List<R> all(List<Future<R>> running) {
        List<R> results = new ArrayList<>();
        for (Future<R> each : running) {
            results.add(Team.get(each));
        }
        return results;
    }

    /** One task for each rank of the team, all at once. */
    private static <R> List<R> each(Scarce place, Team team, Team.Part<R> part) {
        List<Future<R>> running = new ArrayList<>();
        for (Hvd hvd : team.ranks) {
            running.add(place.threads.submit(() -> part.run(hvd)));
        }
        return all(running);
    }

    @ParameterizedTest
    @MethodSource("places")
    void operationsInOppositeOrders(Scarce place) {
        try (Team team = new Team(2)) {
            List<Future<int[]>> running = new ArrayList<>();
            for (Hvd hvd : team.ranks) {
                for (int i = 0; i < OPERATIONS; ++i) {
                    int number = hvd.rank() == 0 ? i : OPERATIONS - 1 - i;
                    running.add(place.threads.submit(() -> hvd.allreduce(new int[] {number}, OpOptions.named("o" + number))));
                }
            }
            assertEquals(2 * OPERATIONS * (OPERATIONS - 1), all(running).stream().mapToInt(sum -> sum[0]).sum());
        }
    }

    @ParameterizedTest
    @MethodSource("places")
    void everyKindOfResult(Scarce place) {
        try (Team team = new Team(2)) {
            each(place, team, hvd -> {
                int rank = hvd.rank();
                assertArrayEquals(new long[] {0, 1}, hvd.allgather(new long[] {rank}, OpOptions.DEFAULT));
                double[] inPlace = {rank};
                assertSame(inPlace, hvd.broadcastInPlace(inPlace, OpOptions.DEFAULT.root(1)));
                assertEquals(1, inPlace[0]);
                assertArrayEquals(new float[] {2, 4}, hvd.groupedAllreduce(List.of(new float[] {1, 2}, new float[] {3}),
                        OpOptions.named("group")).get(0));
                hvd.barrier();
                HvdMismatchException error = assertThrows(HvdMismatchException.class,
                        () -> hvd.allreduce(new int[1 + rank], OpOptions.named("differs")));
                assertTrue(Arrays.stream(error.getStackTrace()).anyMatch(frame -> frame.getClassName().startsWith(
                        WaitingTest.class.getName())), "who called is not in the stack");
                assertTrue(hvd.join() >= 0);
                return null;
            });
        }
    }

    @ParameterizedTest
    @MethodSource("places")
    void joiningLeavingAndProcessSets(Scarce place) {
        String meeting = "mem://" + UUID.randomUUID();
        List<Future<Hvd>> starting = new ArrayList<>();
        for (int i = 0; i < 3; ++i) {
            Options own = Team.patient(new Options().rank(i).size(3).rendezvous(meeting));
            starting.add(place.threads.submit(() -> Hvd.init(own)));
        }
        List<Hvd> ranks = all(starting);
        List<Future<Integer>> running = new ArrayList<>();
        for (Hvd hvd : ranks) {
            running.add(place.threads.submit(() -> {
                ProcessSet set = hvd.createProcessSet(0, 2);
                int sum = set.included() ? hvd.allreduce(new int[] {hvd.rank()}, OpOptions.DEFAULT.in(set))[0] : -1;
                set.destroy();
                return sum;
            }));
        }
        assertEquals(List.of(2, -1, 2), all(running));
        List<Future<Object>> closing = new ArrayList<>();
        ranks.forEach(hvd -> closing.add(place.threads.submit((Callable<Object>) () -> {
            hvd.close();
            return hvd;
        })));
        assertEquals(ranks, all(closing));
    }

    @ParameterizedTest
    @MethodSource("places")
    void errorsOfCallsThatWait(Scarce place) {
        Options alone = new Options().rank(0).size(2).rendezvous("mem://" + UUID.randomUUID()).timeout(Duration.ofMillis(100));
        HvdTimeoutException error = assertThrows(HvdTimeoutException.class,
                () -> Team.get(place.threads.submit(() -> Hvd.init(alone))));
        assertTrue(error.getMessage().contains("missing ranks 1 of 2"), error.getMessage());
    }

    /** A wait of a virtual thread ends with the close of its rank, like any other. */
    @ParameterizedTest
    @MethodSource("places")
    void closeEndsWaits(Scarce place) {
        try (Team team = new Team(2)) {
            Hvd hvd = team.ranks.get(0);
            List<Future<int[]>> waiting = new ArrayList<>();
            IntStream.range(0, 4).forEach(i -> waiting.add(
                    place.threads.submit(() -> hvd.allreduce(new int[1], OpOptions.named("alone" + i)))));
            hvd.close();
            for (Future<int[]> each : waiting) {
                assertThrows(HvdContextException.class, () -> Team.get(each));
            }
        }
    }
}
