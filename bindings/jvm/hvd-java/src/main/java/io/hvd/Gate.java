// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.util.concurrent.atomic.AtomicLong;

/** Counts who uses a native object, so that it is freed only when nobody does. */
final class Gate {
    private static final long CLOSED = Long.MIN_VALUE;

    private final AtomicLong state = new AtomicLong();

    /** False if the gate is closed; otherwise leave() must follow. */
    boolean enter() {
        if (state.incrementAndGet() > 0) {
            return true;
        }
        leave();
        return false;
    }

    void leave() {
        if (state.decrementAndGet() == CLOSED) {
            synchronized (this) {
                notifyAll();
            }
        }
    }

    /** Lets nobody in any more; false if it was closed already. */
    boolean close() {
        return state.getAndUpdate(value -> value < 0 ? value : value + CLOSED) >= 0;
    }

    /** Of a closed gate: returns when all have left. */
    void awaitEmpty() {
        boolean interrupted = false;
        synchronized (this) {
            while (state.get() != CLOSED) {
                try {
                    wait();
                } catch (InterruptedException error) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
