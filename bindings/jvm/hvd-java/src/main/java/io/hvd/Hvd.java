// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/**
 * One rank of a job. Several may live in one process, also ranks of one job as threads.
 *
 * <pre>{@code
 * try (Hvd hvd = Hvd.init()) {
 *     float[] sum = hvd.allreduce(new float[] {hvd.rank()}, OpOptions.named("sum"));
 * }
 * }</pre>
 *
 * <p>All methods may be called from any thread. The collectives are inherited from {@link Collectives}.
 */
public final class Hvd extends Collectives implements AutoCloseable {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final Duration GRACE = Duration.ofSeconds(10);

    /** This rank's places. */
    public static final class Topology {
        private final int[] numbers;

        private Topology(int... numbers) {
            this.numbers = numbers;
        }

        public int rank() {
            return numbers[0];
        }

        public int size() {
            return numbers[1];
        }

        /** Among the ranks of this host. */
        public int localRank() {
            return numbers[2];
        }

        public int localSize() {
            return numbers[3];
        }

        /** Among the hosts that have a rank with this local rank. */
        public int crossRank() {
            return numbers[4];
        }

        public int crossSize() {
            return numbers[5];
        }

        /** Whether every host has the same number of ranks. */
        public boolean homogeneous() {
            return numbers[6] != 0;
        }

        @Override
        public String toString() {
            return "rank " + rank() + " of " + size() + ", local " + localRank() + " of " + localSize() + ", cross " + crossRank()
                    + " of " + crossSize();
        }
    }

    private static final class Closing implements Runnable {
        private final Context context;

        Closing(Context context) {
            this.context = context;
        }

        @Override
        public void run() {
            context.closeLater();
        }
    }

    private final Context context;
    private final Topology topology;
    private final ProcessSet world;

    private Hvd(Context context) {
        this.context = context;
        CLEANER.register(this, new Closing(context));
        topology = context.call(Raw.SIZEOF_hvd_topology, Hvd::readTopology);
        world = findProcessSet(0);
    }

    /** Joins the job that the environment describes; without a launcher it is a job of one rank. */
    public static Hvd init() {
        return init(new Options());
    }

    /** Joins a job. Returns when every rank has arrived, or throws at the time limit with the ranks that have not. */
    public static Hvd init(Options options) {
        Options own = Objects.requireNonNull(options, "options").copy();
        return new Hvd(Waiting.call(Context.CONTINUATIONS, () -> new Context(own)));
    }

    /**
     * Leaves the job. Operations in flight on this rank end with {@link HvdShutDownException}, and so do operations of other
     * ranks
     * that need this one. Waits at most ten seconds for those that are already moving data.
     */
    @Override
    public void close() {
        close(GRACE);
    }

    /** The same with another limit; negative: none. */
    public void close(Duration grace) {
        long nanos = OpOptions.nanos(grace);
        context.waiting(() -> {
            context.close(nanos);
            return null;
        });
        Reference.reachabilityFence(this);
    }

    /** Throws the reason why the context does not work, if it does not. */
    public void check() {
        call((pointer, s) -> {
            s.check(Raw.hvd_context_status(pointer, s.error()));
            return null;
        });
    }

    // ---- topology ----

    private static Topology readTopology(long pointer, Scratch s) {
        int place = s.take(Raw.SIZEOF_hvd_topology);
        s.bytes.putInt(place + Raw.OFFSETOF_hvd_topology_struct_size, Raw.SIZEOF_hvd_topology);
        s.check(Raw.hvd_topology_get(pointer, s.base + place, s.error()));
        return new Topology(s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_rank),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_size),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_local_rank),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_local_size),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_cross_rank),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_cross_size),
                s.bytes.getInt(place + Raw.OFFSETOF_hvd_topology_homogeneous));
    }

    /** All of this rank's places. */
    public Topology topology() {
        return topology;
    }

    /** This rank's number in the job. */
    public int rank() {
        return topology.rank();
    }

    /** The number of ranks in the job. */
    public int size() {
        return topology.size();
    }

    /** This rank's number on its host. */
    public int localRank() {
        return topology.localRank();
    }

    /** The number of ranks on this host. */
    public int localSize() {
        return topology.localSize();
    }

    // ---- members of an elastic job ----

    /** The members of an elastic job, as far as this rank knows. Never blocks. */
    public Membership membership() {
        return call(Membership::read);
    }

    /** Announces that this rank wants to leave an elastic job. The next {@code Hvd.init} of this process is an error then. */
    public void leave() {
        call((pointer, s) -> {
            s.check(Raw.hvd_membership_leave(pointer, s.error()));
            return null;
        });
    }

    // ---- process sets ----

    /** The set of all ranks. */
    public ProcessSet world() {
        return world;
    }

    /** Makes a set of these ranks. Collective over the whole job: every rank calls it with the same ranks, members or not. */
    public ProcessSet createProcessSet(int... ranks) {
        int[] own = ranks.clone();
        return context.waiting(() -> context.call(4L * own.length + 8, (pointer, s) -> {
            int place = s.take(4 * own.length);
            for (int i = 0; i < own.length; ++i) {
                s.bytes.putInt(place + 4 * i, own[i]);
            }
            s.check(Raw.hvd_process_set_create(pointer, s.base + place, own.length, s.out(), s.error()));
            long created = s.outPointer();
            int status = Raw.hvd_process_set_find(pointer, Raw.hvd_process_set_id(created), s.out(), s.error());
            if (status < 0) {
                HvdException failure = s.failure(status);
                Raw.hvd_process_set_free(created);
                throw failure;
            }
            return describe(s.outPointer(), created, s);
        }));
    }

    /** The set with this id. */
    public ProcessSet findProcessSet(int id) {
        return call((pointer, s) -> {
            s.check(Raw.hvd_process_set_find(pointer, id, s.out(), s.error()));
            return describe(s.outPointer(), 0, s);
        });
    }

    private ProcessSet describe(long set, long creation, Scratch s) {
        int[] ranks = readInts(s, data -> Raw.hvd_process_set_ranks(set, data, s.countAddress(), s.error()));
        return new ProcessSet(this, set, creation, ranks, Raw.hvd_process_set_rank(set));
    }

    /** The ids of all sets, ascending. */
    public int[] processSetIds() {
        return call((pointer, s) -> readInts(s, data -> Raw.hvd_process_set_ids(pointer, data, s.countAddress(), s.error())));
    }

    private interface Filling {
        int into(long data);
    }

    /** Asks for the count, then for the numbers, again if they have become more. */
    private static int[] readInts(Scratch s, Filling filling) {
        s.check(filling.into(0));
        for (;;) {
            int room = Math.toIntExact(s.count());
            Scratch numbers = new Scratch(4L * room);
            int place = numbers.take(4 * room);
            int status = filling.into(numbers.base + place);
            int count = Math.toIntExact(s.count());
            if (status < 0 && count > room) {
                continue;
            }
            s.check(status);
            int[] found = new int[count];
            for (int i = 0; i < count; ++i) {
                found[i] = numbers.bytes.getInt(place + 4 * i);
            }
            return found;
        }
    }

    // ---- options and metrics ----

    /** The value in force of an option. */
    public String option(String name) {
        byte[] key = Native.bytes(name);
        return context.call(key.length + 9L, (pointer, s) -> {
            long nameAt = s.base + s.takeText(key);
            s.check(Raw.hvd_option_get(pointer, nameAt, 0, s.countAddress(), s.error()));
            long room = s.count();
            Scratch value = new Scratch(room);
            int place = value.take((int) room);
            s.check(Raw.hvd_option_get(pointer, nameAt, value.base + place, s.countAddress(), s.error()));
            return Native.text(value.base + place);
        });
    }

    /** Changes an option of this rank that may change while running. */
    public void setOption(String name, String value) {
        byte[] key = Native.bytes(name);
        byte[] text = Native.bytes(value);
        context.call(key.length + text.length + 18L, (pointer, s) -> {
            long nameAt = s.base + s.takeText(key);
            s.check(Raw.hvd_option_set(pointer, nameAt, s.base + s.takeText(text), s.error()));
            return null;
        });
    }

    /**
     * Writes the operations that this rank submits from now on to a file in Chrome's trace format: rank 0 to the path, rank 1 of
     * {@code name.json} to {@code name.rank1.json}. {@code markCycles} adds an event for each group of operations.
     */
    public void startTimeline(String path, boolean markCycles) {
        byte[] text = Native.bytes(path);
        context.call(text.length + 9L, (pointer, s) -> {
            s.check(Raw.hvd_timeline_start(pointer, s.base + s.takeText(text), markCycles ? 1 : 0, s.error()));
            return null;
        });
    }

    /** Ends the file of the timeline; nothing if there is none. */
    public void stopTimeline() {
        call((pointer, s) -> {
            s.check(Raw.hvd_timeline_stop(pointer, s.error()));
            return null;
        });
    }

    /** All counters of this rank by name. */
    public Map<String, Double> metrics() {
        return call((pointer, s) -> {
            s.check(Raw.hvd_metrics_snapshot(pointer, 0, s.countAddress(), s.error()));
            int room = Math.toIntExact(s.count());
            Scratch found = new Scratch((long) room * Raw.SIZEOF_hvd_metric);
            int place = found.take(room * Raw.SIZEOF_hvd_metric);
            s.check(Raw.hvd_metrics_snapshot(pointer, found.base + place, s.countAddress(), s.error()));
            Map<String, Double> metrics = new LinkedHashMap<>();
            for (int at = place; at < place + s.count() * Raw.SIZEOF_hvd_metric; at += Raw.SIZEOF_hvd_metric) {
                metrics.put(Native.text(found.bytes.getLong(at + Raw.OFFSETOF_hvd_metric_name)),
                        found.bytes.getDouble(at + Raw.OFFSETOF_hvd_metric_value));
            }
            return metrics;
        });
    }

    /** How often this rank has seen which sizes and times, by name. */
    public Map<String, Histogram> histograms() {
        return call((pointer, s) -> {
            s.check(Raw.hvd_histograms_snapshot(pointer, 0, s.countAddress(), s.error()));
            int room = Math.toIntExact(s.count());
            Scratch found = new Scratch((long) room * Raw.SIZEOF_hvd_histogram);
            int place = found.take(room * Raw.SIZEOF_hvd_histogram);
            s.check(Raw.hvd_histograms_snapshot(pointer, found.base + place, s.countAddress(), s.error()));
            Map<String, Histogram> histograms = new LinkedHashMap<>();
            for (int i = 0; i < s.count(); ++i) {
                Histogram histogram = new Histogram(found, place + i * Raw.SIZEOF_hvd_histogram);
                histograms.put(histogram.name, histogram);
            }
            return histograms;
        });
    }

    /**
     * The last operations of this rank: up to 4,096 that have ended, from the number {@code after} + 1 on, oldest first, then
     * those in flight.
     */
    public List<OperationRecord> records(long after) {
        return call((pointer, s) -> {
            s.check(Raw.hvd_records_snapshot(pointer, after, 0, s.countAddress(), s.error()));
            int room = Math.toIntExact(s.count());
            Scratch found = new Scratch((long) room * Raw.SIZEOF_hvd_record);
            int place = found.take(room * Raw.SIZEOF_hvd_record);
            s.check(Raw.hvd_records_snapshot(pointer, after, found.base + place, s.countAddress(), s.error()));
            List<OperationRecord> records = new ArrayList<>();
            for (int i = 0; i < s.count(); ++i) {
                records.add(new OperationRecord(found, place + i * Raw.SIZEOF_hvd_record));
            }
            return records;
        });
    }

    /** Every option's name, default and help. */
    public static List<List<String>> optionTable() {
        NativeLibrary.load();
        List<List<String>> table = new ArrayList<>();
        for (long i = 0; Raw.hvd_option_name(i) != 0; ++i) {
            table.add(Arrays.asList(Native.text(Raw.hvd_option_name(i)), Native.text(Raw.hvd_option_default(i)),
                    Native.text(Raw.hvd_option_help(i))));
        }
        return table;
    }

    /** The library's version, {@code 1.0.0}. */
    public static String version() {
        NativeLibrary.load();
        return Native.text(Raw.hvd_version_string());
    }

    /** Whether this installation has a feature: shm, tcp, gloo, mpi, ... */
    public static boolean hasFeature(String name) {
        NativeLibrary.load();
        byte[] key = Native.bytes(name);
        Scratch s = new Scratch(key.length + 9L);
        boolean found = Raw.hvd_has_feature(s.base + s.takeText(key)) != 0;
        Reference.reachabilityFence(s);
        return found;
    }

    /** What the counter or histogram of that name tells, in a line; null for an unknown name. */
    public static String metricHelp(String name) {
        NativeLibrary.load();
        byte[] key = Native.bytes(name);
        Scratch s = new Scratch(key.length + 9L);
        long help = Raw.hvd_metric_help(s.base + s.takeText(key));
        Reference.reachabilityFence(s);
        return help == 0 ? null : Native.text(help);
    }

    // ---- for the package ----

    @Override
    Context context() {
        return context;
    }

    @Override
    Hvd self() {
        return this;
    }

    <R> R call(Context.Call<R> call) {
        try {
            return context.call(0, call);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    @Override
    public String toString() {
        return "rank " + rank() + " of " + size();
    }
}
