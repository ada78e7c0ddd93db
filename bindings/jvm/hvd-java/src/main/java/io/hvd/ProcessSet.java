// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.util.Arrays;

/** Some of the ranks of a job, which can operate apart from the others. Made by {@link Hvd#createProcessSet}. */
public final class ProcessSet {
    private static final Cleaner CLEANER = Cleaner.create();

    /** Two references: one that destroy() ends, and one that lets this object answer afterwards. */
    private static final class Native implements Runnable {
        final long pointer;
        long creation; // 0 if this object did not create the set, or has destroyed it

        Native(long pointer, long creation) {
            this.pointer = pointer;
            this.creation = creation;
        }

        @Override
        public void run() {
            Raw.hvd_process_set_free(pointer);
            Raw.hvd_process_set_free(creation);
        }
    }

    private final Hvd hvd;
    private final Native state;
    private final int[] ranks;
    private final int rank;

    /** Takes over the references; `creation` is 0 for a set that was found. */
    ProcessSet(Hvd hvd, long pointer, long creation, int[] ranks, int rank) {
        this.hvd = hvd;
        this.state = new Native(pointer, creation);
        this.ranks = ranks;
        this.rank = rank;
        CLEANER.register(this, state);
    }

    /** Its number: 0 for all ranks, -1 after it has been destroyed. */
    public int id() {
        int id = hvd.call((context, s) -> Raw.hvd_process_set_id(state.pointer));
        Reference.reachabilityFence(this);
        return id;
    }

    /** This rank's place in the set, or -1 if it is no member. */
    public int rank() {
        return rank;
    }

    /** The number of members. */
    public int size() {
        return ranks.length;
    }

    /** The ranks, ascending. */
    public int[] ranks() {
        return ranks.clone();
    }

    /** Whether this rank is a member. */
    public boolean included() {
        return rank >= 0;
    }

    /**
     * When each member announced the operation with that {@link OperationRecord#use}, in nanoseconds of {@link System#nanoTime}, 0
     * for a member that has not. The lowest rank of the set knows; on others this is an error.
     */
    public long[] arrivals(long use) {
        long[] times = hvd.call((context, s) -> {
            Scratch found = new Scratch((long) ranks.length * Long.BYTES);
            int place = found.take(ranks.length * Long.BYTES);
            s.setCount(ranks.length);
            s.check(Raw.hvd_record_arrivals(state.pointer, use, found.base + place, s.countAddress(), s.error()));
            long[] read = new long[ranks.length];
            for (int i = 0; i < read.length; ++i) {
                read[i] = found.bytes.getLong(place + i * Long.BYTES);
            }
            return read;
        });
        Reference.reachabilityFence(this);
        return times;
    }

    /** Ends the set. Collective over the whole job; operations that wait in the set end as cancelled. */
    public void destroy() {
        hvd.context().waiting(this::end);
        Reference.reachabilityFence(this);
    }

    private synchronized Void end() {
        return hvd.call((context, s) -> {
            if (state.creation != 0) {
                s.check(Raw.hvd_process_set_destroy(state.creation, s.error()));
                state.creation = 0;
                return null;
            }
            // A set that was found, or one that is no more, about which the library has the words.
            s.check(Raw.hvd_process_set_find(context, Raw.hvd_process_set_id(state.pointer), s.out(), s.error()));
            long found = s.outPointer();
            int status = Raw.hvd_process_set_destroy(found, s.error());
            if (status < 0) {
                HvdException failure = s.failure(status);
                Raw.hvd_process_set_free(found);
                throw failure;
            }
            return null;
        });
    }

    boolean belongsTo(Hvd other) {
        return hvd == other;
    }

    long pointer() {
        return state.pointer;
    }

    @Override
    public String toString() {
        return "process set of ranks " + Arrays.toString(ranks);
    }
}
