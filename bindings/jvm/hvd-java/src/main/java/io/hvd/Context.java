// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReferenceArray;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * The native context and what belongs to it: the count of its users, the operations in flight, and the thread that hears of
 * their
 * ends. It knows nothing of {@link Hvd}, so that a forgotten one can be collected.
 */
final class Context {
    /**
     * Futures are completed here and not on the thread that hears of the end: what hangs on a future is the user's code, which
     * may
     * wait for other futures.
     */
    static final ExecutorService CONTINUATIONS = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS,
            new SynchronousQueue<>(), task -> daemon(task, "hvd-continuation"));

    private static final int SCRATCHES = 16;

    /** What is to be done when an operation has ended, on the listener. */
    private interface Ending {
        void ended(Scratch s);
    }

    /** An operation whose end somebody will be told. */
    private final class Pending implements Ending {
        final Operation operation;
        final long handle;
        final Outcome outcome;
        final Object owner; // what must not be collected meanwhile

        Pending(Operation operation, long handle, Outcome outcome, Object owner) {
            this.operation = operation;
            this.handle = handle;
            this.outcome = outcome;
            this.owner = owner;
        }

        @Override
        public void ended(Scratch s) {
            end(this, s);
        }
    }

    private interface Outcome {
        void complete(Tensor<?>[] results, Throwable error);
    }

    private final Options.LogConsumer log;
    private final Gate gate = new Gate();
    private final Map<Long, Ending> pending = new ConcurrentHashMap<>();
    private final AtomicLong ids = new AtomicLong();
    private final AtomicReferenceArray<Scratch> scratches = new AtomicReferenceArray<>(SCRATCHES);
    private final CountDownLatch freed = new CountDownLatch(1);
    private final long queue;
    private final Thread listener;
    private long pointer;
    private volatile HvdException whyClosed;

    /** Joins a job. */
    Context(Options options) {
        NativeLibrary.load();
        log = options.logConsumer();
        queue = RawJNI.queueNew();
        if (queue == 0) {
            throw new OutOfMemoryError("hvd: no memory for a queue of events");
        }
        listener = daemon(this::listen, "hvd-listener");
        listener.start();
        boolean made = false;
        try {
            Scratch s = new Scratch(options.room());
            s.check(Raw.hvd_init(options.write(s, queue), s.out(), s.error()));
            pointer = s.outPointer();
            made = true;
        } finally {
            if (!made) {
                RawJNI.queueClose(queue);
            }
        }
    }

    private static Thread daemon(Runnable task, String name) {
        Thread thread = new Thread(null, task, name, 256 << 10);
        thread.setDaemon(true);
        return thread;
    }

    // ---- users of the pointer ----

    /** Work that needs the pointer and some scratch. */
    interface Call<R> {
        R run(long pointer, Scratch scratch);
    }

    <R> R call(long room, Call<R> call) {
        enter();
        try {
            Scratch s = scratch(room);
            R result = call.run(pointer, s);
            giveBack(s);
            return result;
        } finally {
            gate.leave();
        }
    }

    /** Makes a call that waits for other ranks. */
    <R> R waiting(Supplier<R> call) {
        return Waiting.call(CONTINUATIONS, call);
    }

    private void enter() {
        if (!gate.enter()) {
            HvdException why = whyClosed;
            throw why != null ? HvdException.again(why) : new HvdShutDownException(-1, 0, "this context has been closed");
        }
    }

    private Scratch scratch(long room) {
        int slot = (int) Thread.currentThread().getId() & (SCRATCHES - 1);
        Scratch s = scratches.getAndSet(slot, null);
        return s != null && s.reset(room) ? s : new Scratch(room);
    }

    private void giveBack(Scratch s) {
        if (s.isUsual()) {
            scratches.set((int) Thread.currentThread().getId() & (SCRATCHES - 1), s);
        }
    }

    // ---- operations ----

    /** Submits and waits. */
    Tensor<?>[] run(Operation operation) {
        enter();
        try {
            Scratch s = scratch(operation.room());
            try {
                operation.place();
                s.check(operation.submit(pointer, s));
                long handle = s.outPointer();
                try {
                    s.check(await(handle, s));
                    return operation.results(handle, s);
                } finally {
                    Raw.hvd_handle_free(handle);
                }
            } finally {
                operation.release();
                giveBack(s);
                Reference.reachabilityFence(operation);
            }
        } finally {
            gate.leave();
        }
    }

    /** Until the operation has ended; how it did. */
    private int await(long handle, Scratch s) {
        Thread thread = Thread.currentThread();
        if (Waiting.isVirtual(thread)) {
            park(handle, s);
        } else if (Waiting.isInPool(thread)) {
            Waiting.inPool(() -> Raw.hvd_test(handle, 0) != Status.PENDING.number(), () -> Raw.hvd_wait(handle, -1, 0));
        }
        return Raw.hvd_wait(handle, -1, s.error()); // of a platform thread: here it runs the engine
    }

    private void park(long handle, Scratch s) {
        CompletableFuture<Void> ended = new CompletableFuture<>();
        long id = ids.incrementAndGet();
        pending.put(id, scratch -> ended.complete(null));
        if (RawJNI.then(handle, queue, id, s.error()) < 0) {
            pending.remove(id); // nobody will tell of the end: the carrier has to wait
        } else {
            ended.join();
        }
    }

    /** Submits; the future ends with the operation. Errors of the library arrive there, those of Java are thrown. */
    <R> CompletableFuture<R> start(Operation operation, Function<Tensor<?>[], R> convert, Object owner) {
        CompletableFuture<R> future = new CompletableFuture<>();
        Outcome outcome = (results, error) -> {
            if (error != null) {
                future.completeExceptionally(error);
                return;
            }
            try {
                future.complete(convert.apply(results));
            } catch (Throwable fault) {
                future.completeExceptionally(fault);
            }
        };
        enter();
        boolean inFlight = false;
        try {
            Scratch s = scratch(operation.room());
            operation.place();
            int status = operation.submit(pointer, s);
            if (status < 0) {
                future.completeExceptionally(s.failure(status));
            } else {
                inFlight = true;
                register(new Pending(operation, s.outPointer(), outcome, owner), s);
            }
            giveBack(s);
            return future;
        } finally {
            if (!inFlight) {
                operation.release();
                gate.leave();
            }
        }
    }

    private void register(Pending item, Scratch s) {
        long id = ids.incrementAndGet();
        pending.put(id, item);
        if (RawJNI.then(item.handle, queue, id, s.error()) < 0) {
            // Nobody will tell of the end, and the memory is in use until then.
            pending.remove(id);
            Raw.hvd_wait(item.handle, -1, s.error());
            end(item, s);
        }
    }

    /** An operation has ended: reads its results, frees what it held, and lets the future know. */
    private void end(Pending item, Scratch s) {
        Tensor<?>[] results = null;
        Throwable error = null;
        try {
            s.check(Raw.hvd_wait(item.handle, 0, s.error()));
            results = item.operation.results(item.handle, s);
        } catch (Throwable fault) {
            error = fault;
        }
        Raw.hvd_handle_free(item.handle);
        item.operation.release();
        Reference.reachabilityFence(item.owner);
        gate.leave();
        Tensor<?>[] found = results;
        Throwable cause = error;
        CONTINUATIONS.execute(() -> item.outcome.complete(found, cause));
    }

    // ---- the listener ----

    private void listen() {
        ByteBuffer record = ByteBuffer.allocateDirect(Raw.SIZEOF_event_record).order(ByteOrder.nativeOrder());
        long address = RawJNI.address(record);
        Scratch s = new Scratch(0);
        for (;;) {
            int kind = RawJNI.queueNext(queue, address);
            if (kind == 1) {
                pending.remove(record.getLong(Raw.OFFSETOF_event_record_id)).ended(s);
            } else if (kind == 2) {
                tell(record);
            } else {
                break;
            }
        }
        RawJNI.queueFree(queue);
        Reference.reachabilityFence(record);
    }

    private void tell(ByteBuffer record) {
        try {
            int lost = record.getInt(Raw.OFFSETOF_event_record_lost);
            String message = text(record, Raw.OFFSETOF_event_record_message, Raw.SIZEOF_event_record);
            log.accept(Options.LogLevel.of(record.getInt(Raw.OFFSETOF_event_record_number)),
                    record.getInt(Raw.OFFSETOF_event_record_rank),
                    text(record, Raw.OFFSETOF_event_record_component, Raw.OFFSETOF_event_record_message),
                    lost == 0 ? message : message + " (" + lost + " lines before this one were lost)");
        } catch (Exception error) {
            // A consumer's own fault: the ends of operations must go on being heard.
            Thread.UncaughtExceptionHandler handler = Thread.currentThread().getUncaughtExceptionHandler();
            handler.uncaughtException(Thread.currentThread(), error);
        }
    }

    private static String text(ByteBuffer record, int from, int limit) {
        int end = from;
        while (end < limit && record.get(end) != 0) {
            ++end;
        }
        byte[] found = new byte[end - from];
        record.get(from, found, 0, found.length);
        return new String(found, StandardCharsets.UTF_8);
    }

    // ---- the end ----

    /** Leaves the job; operations in flight end with an error. Waits until nobody uses the context any more. */
    void close(long timeoutNanos) {
        if (Thread.currentThread() == listener) {
            throw new IllegalStateException("close: the log consumer must not close its own context");
        }
        if (gate.close()) {
            try {
                Scratch s = new Scratch(0);
                int status = Raw.hvd_shutdown(pointer, timeoutNanos, s.error());
                HvdException failure = status < 0 ? s.failure(status) : null;
                whyClosed = Raw.hvd_context_status(pointer, s.error()) < 0 ? s.failure(Status.SHUT_DOWN.number()) : null;
                gate.awaitEmpty();
                Raw.hvd_context_free(pointer);
                RawJNI.queueClose(queue);
                if (failure != null) {
                    throw failure;
                }
            } finally {
                freed.countDown();
            }
            return;
        }
        awaitFreed();
    }

    private void awaitFreed() {
        boolean interrupted = false;
        for (;;) {
            try {
                freed.await();
                break;
            } catch (InterruptedException error) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** For the Cleaner, whose thread must not wait: closes on a thread of its own, without grace for operations. */
    void closeLater() {
        daemon(() -> close(0), "hvd-cleaner").start();
    }
}
