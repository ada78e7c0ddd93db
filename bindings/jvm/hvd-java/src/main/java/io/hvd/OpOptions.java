// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Objects;
import java.util.StringJoiner;

/**
 * How one operation is meant. Immutable; each method gives a changed copy, so one that is used in a loop is best made before
 * it.
 *
 * <pre>{@code OpOptions.named("gradients").reduce(ReduceOp.AVERAGE).in(evenRanks)}</pre>
 */
public final class OpOptions {
    /** No name, the sum, all ranks, root 0. */
    public static final OpOptions DEFAULT = new OpOptions();

    private String name;
    private byte[] nameBytes;
    private int priority;
    private ProcessSet set;
    private long timeoutNanos;
    private ReduceOp reduceOp = ReduceOp.SUM;
    private int root;
    private double prescale = 1.0;
    private double postscale = 1.0;

    private OpOptions() {}

    private OpOptions(OpOptions other) {
        name = other.name;
        nameBytes = other.nameBytes;
        priority = other.priority;
        set = other.set;
        timeoutNanos = other.timeoutNanos;
        reduceOp = other.reduceOp;
        root = other.root;
        prescale = other.prescale;
        postscale = other.postscale;
    }

    /** Options with this name. */
    public static OpOptions named(String name) {
        return DEFAULT.name(name);
    }

    /** Options with this reduction. */
    public static OpOptions reducing(ReduceOp op) {
        return DEFAULT.reduce(op);
    }

    /**
     * Unique among the operations in flight of the set; null: matched by the order of unnamed calls. A name with a NUL
     * character is refused.
     */
    public OpOptions name(String newName) {
        if (newName != null && newName.indexOf('\0') >= 0) {
            throw new IllegalArgumentException("name: has a NUL character at index " + newName.indexOf('\0'));
        }
        OpOptions copy = new OpOptions(this);
        copy.name = newName;
        copy.nameBytes = newName == null ? null : newName.getBytes(StandardCharsets.UTF_8);
        return copy;
    }

    /** Of operations that are ready together, higher ones run first. */
    public OpOptions priority(int newPriority) {
        OpOptions copy = new OpOptions(this);
        copy.priority = newPriority;
        return copy;
    }

    /** The process set; null: all ranks. */
    public OpOptions in(ProcessSet newSet) {
        OpOptions copy = new OpOptions(this);
        copy.set = newSet;
        return copy;
    }

    /** The operation's time limit; zero: the option op_timeout; negative: none. */
    public OpOptions timeout(Duration limit) {
        OpOptions copy = new OpOptions(this);
        copy.timeoutNanos = nanos(limit);
        return copy;
    }

    /** For allreduce and reducescatter. */
    public OpOptions reduce(ReduceOp op) {
        OpOptions copy = new OpOptions(this);
        copy.reduceOp = Objects.requireNonNull(op, "op");
        return copy;
    }

    /** For broadcast and gather: a rank of the job, also inside a set. */
    public OpOptions root(int rank) {
        OpOptions copy = new OpOptions(this);
        copy.root = rank;
        return copy;
    }

    /** Inputs are multiplied by it before the reduction. */
    public OpOptions prescale(double factor) {
        OpOptions copy = new OpOptions(this);
        copy.prescale = factor;
        return copy;
    }

    /** Results are multiplied by it after the reduction. */
    public OpOptions postscale(double factor) {
        OpOptions copy = new OpOptions(this);
        copy.postscale = factor;
        return copy;
    }

    /** The name, or null. */
    public String name() {
        return name;
    }

    /** The process set, or null for all ranks. */
    public ProcessSet set() {
        return set;
    }

    public ReduceOp reduce() {
        return reduceOp;
    }

    public int root() {
        return root;
    }

    public double prescale() {
        return prescale;
    }

    public double postscale() {
        return postscale;
    }

    public int priority() {
        return priority;
    }

    /** What differs from {@link #DEFAULT}: {@code OpOptions[name=gradients, reduce=AVERAGE]}. */
    @Override
    public String toString() {
        StringJoiner text = new StringJoiner(", ", "OpOptions[", "]");
        add(text, "name", name, null);
        add(text, "reduce", reduceOp, DEFAULT.reduceOp);
        add(text, "in", set, null);
        add(text, "root", root, DEFAULT.root);
        add(text, "prescale", prescale, DEFAULT.prescale);
        add(text, "postscale", postscale, DEFAULT.postscale);
        add(text, "priority", priority, DEFAULT.priority);
        add(text, "timeout", timeoutNanos < 0 ? "none" : Duration.ofNanos(timeoutNanos), Duration.ZERO);
        return text.toString();
    }

    static void add(StringJoiner text, String what, Object value, Object usual) {
        if (!Objects.equals(value, usual)) {
            text.add(what + "=" + value);
        }
    }

    /** A limit in the library's words: zero stays zero, negative is none, and what is too long is none. */
    static long nanos(Duration limit) {
        if (limit.isNegative()) {
            return -1;
        }
        return limit.getSeconds() > Long.MAX_VALUE / 2_000_000_000L ? -1 : limit.toNanos();
    }

    int room() {
        return Raw.SIZEOF_hvd_op_options + 8 + (nameBytes == null ? 0 : nameBytes.length + 9);
    }

    /** Writes the struct and returns its address. */
    long write(Scratch scratch) {
        int place = scratch.take(Raw.SIZEOF_hvd_op_options);
        ByteBuffer to = scratch.bytes;
        to.putInt(place + Raw.OFFSETOF_hvd_op_options_struct_size, Raw.SIZEOF_hvd_op_options);
        to.putInt(place + Raw.OFFSETOF_hvd_op_options_priority, priority);
        to.putLong(place + Raw.OFFSETOF_hvd_op_options_name, nameBytes == null ? 0 : scratch.base + scratch.takeText(nameBytes));
        to.putLong(place + Raw.OFFSETOF_hvd_op_options_set, set == null ? 0 : set.pointer());
        to.putLong(place + Raw.OFFSETOF_hvd_op_options_timeout_ns, timeoutNanos);
        to.putInt(place + Raw.OFFSETOF_hvd_op_options_reduce_op, reduceOp.number());
        to.putInt(place + Raw.OFFSETOF_hvd_op_options_root, root);
        to.putDouble(place + Raw.OFFSETOF_hvd_op_options_prescale, prescale);
        to.putDouble(place + Raw.OFFSETOF_hvd_op_options_postscale, postscale);
        to.putLong(place + Raw.OFFSETOF_hvd_op_options_stream, 0);
        return scratch.base + place;
    }
}
