// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.ForkJoinWorkerThread;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;

/**
 * How a thread waits in the library without keeping others from running. A platform thread waits in native code, where it runs
 * the engine itself. A virtual thread (JDK 21) that did so would keep its carrier, and a worker of a {@link ForkJoinPool} its
 * place in the pool; there are only as many of both as the machine has cores, and what they wait for may be the operation of a
 * thread that has not begun for want of one.
 */
final class Waiting {
    private static final MethodHandle IS_VIRTUAL = isVirtual();

    private Waiting() {}

    private static MethodHandle isVirtual() {
        try {
            return MethodHandles.publicLookup().findVirtual(Thread.class, "isVirtual", MethodType.methodType(boolean.class));
        } catch (ReflectiveOperationException error) {
            return MethodHandles.dropArguments(MethodHandles.constant(boolean.class, false), 0, Thread.class); // before JDK 21
        }
    }

    /** Whether the caller must give its carrier back while it waits. */
    static boolean isVirtual(Thread thread) {
        try {
            return (boolean) IS_VIRTUAL.invokeExact(thread);
        } catch (Throwable error) {
            throw new IllegalStateException("Thread.isVirtual", error);
        }
    }

    /** Makes a call that may wait for other ranks: of a virtual thread, on a thread that `platform` has. */
    static <R> R call(Executor platform, Supplier<R> call) {
        Thread thread = Thread.currentThread();
        if (isVirtual(thread)) {
            return callOn(platform, call);
        }
        if (!isInPool(thread)) {
            return call.get();
        }
        Made<R> made = new Made<>(call);
        inPool(made::hasRun, made);
        return made.result;
    }

    private static final class Made<R> implements Runnable {
        private final Supplier<R> call;
        private boolean ran;
        private R result;

        Made(Supplier<R> call) {
            this.call = call;
        }

        boolean hasRun() {
            return ran;
        }

        @Override
        public void run() {
            ran = true;
            result = call.get();
        }
    }

    private static <R> R callOn(Executor platform, Supplier<R> call) {
        try {
            return CompletableFuture.supplyAsync(call, platform).join();
        } catch (CompletionException error) {
            Throwable cause = error.getCause();
            if (cause instanceof HvdException) {
                throw HvdException.again((HvdException) cause); // with the stack of who called
            }
            if (cause instanceof RuntimeException) {
                throw (RuntimeException) cause;
            }
            if (cause instanceof Error) {
                throw (Error) cause;
            }
            throw error;
        }
    }

    /** Whether the caller takes up a place in a pool. */
    static boolean isInPool(Thread thread) {
        return thread instanceof ForkJoinWorkerThread;
    }

    /** Runs what blocks, on a pool's worker: the pool may start another one for as long as it does. */
    static void inPool(BooleanSupplier ended, Runnable block) {
        try {
            ForkJoinPool.managedBlock(new ForkJoinPool.ManagedBlocker() {
                @Override
                public boolean block() {
                    block.run();
                    return true;
                }

                @Override
                public boolean isReleasable() {
                    return ended.getAsBoolean();
                }
            });
        } catch (RejectedExecutionException error) {
            if (ended.getAsBoolean()) {
                throw error;
            }
            block.run(); // the pool has as many threads as it may have
        } catch (InterruptedException error) {
            throw new IllegalStateException("block() does not throw it", error);
        }
    }
}
