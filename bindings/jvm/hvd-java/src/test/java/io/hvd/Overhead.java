// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Locale;
import java.util.UUID;

/**
 * What the API costs over its native layer: allreduce of float32 in place by one rank, both in turns. Prints a line of JSON per size,
 * in
 * nanoseconds per call, as benchmarks/bindings of the other languages do. Arguments: batches and calls per batch.
 */
final class Overhead {
    private static final int WARM_UP_BATCHES = 10;
    private static int batches = 40;
    private static int calls = 3000;

    private Overhead() {}

    /** The thinnest calls that Java has: structs written once, three calls through JNI. */
    private static final class NativeLayer {
        final Scratch scratch = new Scratch(512);
        final ByteBuffer data;
        final long context;
        final long tensor;
        final long options;

        NativeLayer(long context, int bytes) {
            this.context = context;
            data = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
            int place = scratch.takeTensors(1);
            scratch.putTensor(place, Tensor.of(data, DType.FLOAT32, bytes / 4), RawJNI.address(data));
            tensor = scratch.base + place;
            options = OpOptions.named("native").write(scratch);
        }

        void call() {
            int status = Raw.hvd_allreduce_async(context, tensor, tensor, options, scratch.out(), scratch.error());
            long handle = status < 0 ? 0 : scratch.outPointer();
            if (status < 0 || Raw.hvd_wait(handle, -1, scratch.error()) < 0) {
                throw scratch.failure(status);
            }
            Raw.hvd_handle_free(handle);
        }
    }

    private static double batch(Runnable call) {
        long began = System.nanoTime();
        for (int i = 0; i < calls; ++i) {
            call.run();
        }
        return (System.nanoTime() - began) / (double) calls;
    }

    private static double median(double[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }

    private static void measure(Hvd hvd, int bytes) {
        NativeLayer layer = hvd.call((context, scratch) -> new NativeLayer(context, bytes));
        ByteBuffer data = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder());
        java.nio.FloatBuffer direct = data.asFloatBuffer();
        float[] array = new float[bytes / 4];
        OpOptions options = OpOptions.named("api");
        Runnable[] ways = {layer::call, () -> hvd.allreduceInPlace(direct, options), () -> hvd.allreduceInPlace(array, options)};
        double[][] times = new double[ways.length][batches];
        for (int round = -WARM_UP_BATCHES; round < batches; ++round) {
            for (int way = 0; way < ways.length; ++way) {
                double time = batch(ways[way]);
                if (round >= 0) {
                    times[way][round] = time;
                }
            }
        }
        System.out.printf(Locale.ROOT, "{\"language\": \"java\", \"bytes\": %d, \"native_ns\": %.0f, \"api_ns\": %.0f, \"array_ns\": %.0f}%n",
                bytes, median(times[0]), median(times[1]), median(times[2]));
    }

    public static void main(String[] arguments) {
        if (arguments.length == 2) {
            batches = Integer.parseInt(arguments[0]);
            calls = Integer.parseInt(arguments[1]);
        }
        try (Hvd hvd = Hvd.init(new Options().rank(0).size(1).rendezvous("mem://" + UUID.randomUUID()))) {
            measure(hvd, 8);
            measure(hvd, 4096);
        }
    }
}
