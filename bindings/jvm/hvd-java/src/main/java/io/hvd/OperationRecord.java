// SPDX-License-Identifier: Apache-2.0
package io.hvd;

/**
 * An operation of this rank, as the flight recorder keeps it. Times are nanoseconds of {@link System#nanoTime}, 0 where the
 * operation has not come so far. {@code waited}, {@code moved}, {@code reduced} and {@code copied} are nanoseconds of the whole
 * group with which the operation ran.
 */
public final class OperationRecord {
    /** 1, 2, ... in the order in which operations ended here; 0 in flight. */
    public final long number;

    /** The same on all members for the same operation; 0 if the members have not come together. */
    public final long use;

    /** "allreduce" and the like. */
    public final String kind;

    /** A name that is too long lacks its middle. */
    public final String name;

    /** The id of the process set. */
    public final int processSet;

    /** 0, 1 in flight, or the number of an error in hvd.h. */
    public final int status;

    /** The element type of the first tensor, a number of hvd.h; -1 if there is no tensor. */
    public final int dtype;

    /** A number of hvd.h; -1 if operations of the kind have none. */
    public final int reduceOp;

    /** How many there are. */
    public final int tensors;

    /** The rank that announced the operation last; -1 if that is not known here. */
    public final int lastRank;

    /** The rank for which the group waited longest; -1 if it waited for none, or that is not known. */
    public final int waitedFor;

    /** The first four of the first tensor's dimensions. */
    public final long[] shape;

    /** Of this rank's inputs. */
    public final long bytes;

    /** The same for the operations of a group; 0 if the operation ran alone with its messages. */
    public final long group;

    /** The inputs of all operations of the group together. */
    public final long groupBytes;

    /** In the group. */
    public final long groupOperations;

    /** From the first rank's announcement to the last one's. */
    public final long spread;

    /** When the operation was submitted. */
    public final long submitted;

    /** When this rank learned that all ranks are there. */
    public final long agreed;

    /** When the data began to move. */
    public final long begun;

    /** When the operation ended. */
    public final long ended;

    /** Nothing could be done until another rank acted. */
    public final long waited;

    /** All the rest, such as the network. */
    public final long moved;

    /** Tensors were put together. */
    public final long reduced;

    /** Bytes were copied within this host's memory. */
    public final long copied;

    /** Reads the struct that lies at a place of the scratch memory. */
    OperationRecord(Scratch s, int at) {
        number = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_number);
        use = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_use);
        kind = Native.text(s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_kind));
        name = Native.text(s.base + at + Raw.OFFSETOF_hvd_record_name);
        processSet = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_process_set);
        status = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_status);
        dtype = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_dtype);
        reduceOp = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_reduce_op);
        tensors = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_tensors);
        lastRank = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_last_rank);
        waitedFor = s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_waited_for);
        shape = new long[Math.min(4, s.bytes.getInt(at + Raw.OFFSETOF_hvd_record_ndim))];
        for (int i = 0; i < shape.length; ++i) {
            shape[i] = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_shape + i * Long.BYTES);
        }
        bytes = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_bytes);
        group = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_group);
        groupBytes = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_group_bytes);
        groupOperations = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_group_operations);
        spread = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_spread);
        submitted = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_submitted);
        agreed = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_agreed);
        begun = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_begun);
        ended = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_ended);
        waited = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_waited);
        moved = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_moved);
        reduced = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_reduced);
        copied = s.bytes.getLong(at + Raw.OFFSETOF_hvd_record_copied);
    }
}
