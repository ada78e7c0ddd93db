// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** The ranks of a job as threads of this process. Scala's tests use it too. */
public final class Team implements AutoCloseable {
    /** What each rank does. */
    public interface Part<R> {
        R run(Hvd hvd) throws Exception;
    }

    /** Limits of time are for a machine that does nothing else; HVD_TEST_TIME_SCALE=3 allows three times as long. */
    private static final long LIMIT_SECONDS = scaled(60);

    public final List<Hvd> ranks = new ArrayList<>();
    private final ExecutorService threads = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "rank");
        thread.setDaemon(true);
        return thread;
    });

    public Team(int size) {
        this(size, patient(new Options()));
    }

    public Team(int size, Options common) {
        String meeting = "mem://" + UUID.randomUUID();
        List<Future<Hvd>> starting = new ArrayList<>();
        for (int i = 0; i < size; ++i) {
            Options own = common.copy().rank(i).size(size).rendezvous(meeting).timeout(Duration.ofSeconds(scaled(30)))
                    .log((level, rank, component, message) -> { });
            starting.add(threads.submit(() -> Hvd.init(own)));
        }
        for (Future<Hvd> each : starting) {
            ranks.add(get(each));
        }
    }

    /** The limit on this machine, in seconds. */
    static long scaled(long seconds) {
        String text = System.getenv("HVD_TEST_TIME_SCALE");
        return text == null || text.isEmpty() ? seconds : (long) (seconds * Double.parseDouble(text));
    }

    /** Options with the limits of a test for the start of a job and for operations. */
    static Options patient(Options options) {
        return options.timeout(Duration.ofSeconds(scaled(30))).set("op_timeout", Long.toString(scaled(30)));
    }

    /** Runs the part on every rank at once; throws the first error by rank. */
    public <R> List<R> run(Part<R> part) {
        List<Future<R>> running = new ArrayList<>();
        for (Hvd hvd : ranks) {
            running.add(threads.submit(() -> part.run(hvd)));
        }
        List<R> results = new ArrayList<>();
        RuntimeException first = null;
        for (Future<R> each : running) {
            try {
                results.add(get(each));
            } catch (RuntimeException error) {
                first = first == null ? error : first;
            }
        }
        if (first != null) {
            throw first;
        }
        return results;
    }

    /** One job of `size` ranks that does this and ends. */
    public static <R> List<R> of(int size, Part<R> part) {
        try (Team team = new Team(size)) {
            return team.run(part);
        }
    }

    static <R> R get(Future<R> future) {
        try {
            return future.get(LIMIT_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            if (error.getCause() instanceof RuntimeException) {
                throw (RuntimeException) error.getCause();
            }
            throw new AssertionError(error.getCause());
        } catch (InterruptedException | TimeoutException error) {
            throw new AssertionError("waited " + LIMIT_SECONDS + " s", error);
        }
    }

    @Override
    public void close() {
        List<Future<?>> closing = new ArrayList<>();
        for (Hvd hvd : ranks) {
            closing.add(threads.submit(() -> hvd.close()));
        }
        for (Future<?> each : closing) {
            get(each);
        }
        threads.shutdownNow();
    }
}
