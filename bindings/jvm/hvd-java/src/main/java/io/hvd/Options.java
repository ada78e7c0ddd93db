// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.StringJoiner;

/** How a rank joins its job. Each method changes this object and returns it. What is not said comes from the environment. */
public final class Options {
    /** How urgent a line of the log is. */
    public enum LogLevel {
        ERROR(System.Logger.Level.ERROR),
        WARN(System.Logger.Level.WARNING),
        INFO(System.Logger.Level.INFO),
        DEBUG(System.Logger.Level.DEBUG),
        TRACE(System.Logger.Level.TRACE);

        private final System.Logger.Level level;

        LogLevel(System.Logger.Level level) {
            this.level = level;
        }

        static LogLevel of(int number) {
            return values()[Math.max(0, Math.min(number, values().length - 1))];
        }
    }

    /**
     * Receives lines of the log, one at a time, on a thread of the context. It must not wait for operations or close the
     * context.
     */
    public interface LogConsumer {
        void accept(LogLevel level, int rank, String component, String message);
    }

    private static final class SystemLog {
        static final System.Logger LOGGER = System.getLogger("io.hvd");
    }

    private int rank = -1;
    private int size;
    private String rendezvous;
    private long timeoutNanos;
    private LogConsumer log = (level, from, component, message) ->
            SystemLog.LOGGER.log(level.level, "rank " + from + ": " + component + ": " + message);
    private final Map<String, String> settings = new LinkedHashMap<>();

    /** Everything from the environment, as horovodrun and other launchers set it; without it a job of one rank. */
    public Options() {}

    private Options(Options other) {
        rank = other.rank;
        size = other.size;
        rendezvous = other.rendezvous;
        timeoutNanos = other.timeoutNanos;
        log = other.log;
        settings.putAll(other.settings);
    }

    Options copy() {
        return new Options(this);
    }

    /** This rank's number; -1: from the environment, or in order of arrival. */
    public Options rank(int number) {
        rank = number;
        return this;
    }

    /** The number of ranks; 0: from the environment. */
    public Options size(int ranks) {
        size = ranks;
        return this;
    }

    /**
     * Where ranks meet: {@code mem://name} for threads of one process, {@code file:///folder}, {@code tcp://host:port/job},
     * ...
     */
    public Options rendezvous(String url) {
        rendezvous = checked("rendezvous", url);
        return this;
    }

    /** For the whole of init; zero: the option start_timeout; negative: none. */
    public Options timeout(Duration limit) {
        timeoutNanos = OpOptions.nanos(limit);
        return this;
    }

    /** One of {@link Hvd#optionTable()}; it wins over the environment. */
    public Options set(String name, String value) {
        settings.put(checked("option name", Objects.requireNonNull(name, "name")),
                checked("value of " + name, Objects.requireNonNull(value, "value")));
        return this;
    }

    /** Receives the log; the default is the {@link System.Logger} named {@code io.hvd}. */
    public Options log(LogConsumer consumer) {
        log = Objects.requireNonNull(consumer, "consumer");
        return this;
    }

    /** What has been said here: {@code Options[rank=0, size=2, rendezvous=mem://x, op_timeout=30]}. */
    @Override
    public String toString() {
        StringJoiner text = new StringJoiner(", ", "Options[", "]");
        OpOptions.add(text, "rank", rank, -1);
        OpOptions.add(text, "size", size, 0);
        OpOptions.add(text, "rendezvous", rendezvous, null);
        OpOptions.add(text, "timeout", timeoutNanos < 0 ? "none" : Duration.ofNanos(timeoutNanos), Duration.ZERO);
        settings.forEach((name, value) -> OpOptions.add(text, name, value, null));
        return text.toString();
    }

    LogConsumer logConsumer() {
        return log;
    }

    private static String checked(String what, String text) {
        if (text != null && text.indexOf('\0') >= 0) {
            throw new IllegalArgumentException(what + ": has a NUL character at index " + text.indexOf('\0'));
        }
        return text;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    long room() {
        long room = Raw.SIZEOF_hvd_init_options + 16 + (rendezvous == null ? 0 : bytes(rendezvous).length + 9L);
        for (Map.Entry<String, String> entry : settings.entrySet()) {
            room += Raw.SIZEOF_hvd_option + bytes(entry.getKey()).length + bytes(entry.getValue()).length + 18L;
        }
        return room;
    }

    /** Writes the struct, its log going to this queue, and returns its address. */
    long write(Scratch s, long queue) {
        ByteBuffer to = s.bytes;
        int place = s.take(Raw.SIZEOF_hvd_init_options);
        int pairs = s.take(Raw.SIZEOF_hvd_option * settings.size());
        int next = pairs;
        for (Map.Entry<String, String> entry : settings.entrySet()) {
            to.putLong(next + Raw.OFFSETOF_hvd_option_name, s.base + s.takeText(bytes(entry.getKey())));
            to.putLong(next + Raw.OFFSETOF_hvd_option_value, s.base + s.takeText(bytes(entry.getValue())));
            next += Raw.SIZEOF_hvd_option;
        }
        to.putInt(place + Raw.OFFSETOF_hvd_init_options_struct_size, Raw.SIZEOF_hvd_init_options);
        to.putInt(place + Raw.OFFSETOF_hvd_init_options_rank, rank);
        to.putInt(place + Raw.OFFSETOF_hvd_init_options_size, size);
        to.putInt(place + Raw.OFFSETOF_hvd_init_options_flags, 0);
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_rendezvous, rendezvous == null ? 0 : s.base + s.takeText(bytes(rendezvous)));
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_store, 0);
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_timeout_ns, timeoutNanos);
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_options, s.base + pairs);
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_option_count, settings.size());
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_log_fn, RawJNI.logFunction());
        to.putLong(place + Raw.OFFSETOF_hvd_init_options_log_user_data, queue);
        return s.base + place;
    }
}
