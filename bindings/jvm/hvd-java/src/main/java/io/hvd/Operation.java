// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.util.List;
import java.util.Objects;

/**
 * One submitted operation: its tensors, where their bytes stand while it runs, and its results. It must be kept until the
 * operation
 * has ended, because it keeps the memory.
 */
final class Operation {
    private static final Tensor<?>[] NONE = {};

    private final Kind kind;
    private final boolean grouped;
    private final Tensor<?>[] inputs;
    private final Tensor<?>[] outputs; // null: the library allocates them
    private final OpOptions options;
    private final long[] splits;
    private final long[] inputData;
    private final long[] outputData;
    private long[] blocks; // null until something had to be copied
    private int blockCount;

    /** Results of alltoall: rows received from each rank. */
    long[] receivedSplits;

    /** Result of join. */
    int lastJoined = -1;

    private Operation(Kind kind, boolean grouped, Tensor<?>[] inputs, Tensor<?>[] outputs, long[] splits, OpOptions options) {
        this.kind = kind;
        this.grouped = grouped;
        this.inputs = inputs;
        this.outputs = outputs;
        this.splits = splits;
        this.options = Objects.requireNonNull(options, "options");
        this.inputData = new long[inputs.length];
        this.outputData = outputs == null || outputs == inputs ? inputData : new long[outputs.length];
    }

    static Operation single(Kind kind, Tensor<?> input, Tensor<?> output, OpOptions options) {
        Tensor<?>[] inputs = {input};
        return new Operation(kind, false, inputs, output == null ? null : output == input ? inputs : new Tensor<?>[] {output}, null,
                options);
    }

    static Operation alltoall(Tensor<?> input, long[] splits, OpOptions options) {
        return new Operation(Kind.ALLTOALL, false, new Tensor<?>[] {input}, null, splits == null ? null : splits.clone(), options);
    }

    static Operation group(Kind kind, List<Tensor<?>> inputs, List<Tensor<?>> outputs, OpOptions options) {
        Tensor<?>[] given = inputs.toArray(NONE);
        if (outputs != null && outputs.size() != given.length) {
            throw new IllegalArgumentException("group: " + given.length + " inputs and " + outputs.size() + " outputs");
        }
        return new Operation(kind, true, given, outputs == null ? null : outputs == inputs ? given : outputs.toArray(NONE), null,
                options);
    }

    static Operation plain(Kind kind, OpOptions options) {
        return new Operation(kind, false, NONE, NONE, null, options);
    }

    ProcessSet set() {
        return options.set();
    }

    /** Bytes of scratch that submit() takes. */
    long room() {
        long room = options.room() + (splits == null ? 0 : 8L * splits.length);
        for (Tensor<?> input : inputs) {
            room += Raw.SIZEOF_hvd_tensor + 8L * input.dimensions();
        }
        if (outputs != null && outputs != inputs) {
            for (Tensor<?> output : outputs) {
                room += Raw.SIZEOF_hvd_tensor + 8L * output.dimensions();
            }
        }
        return room;
    }

    /** Finds or makes the memory of every tensor. Whether it succeeds or not, release() must follow. */
    void place() {
        if (outputs != null) {
            for (Tensor<?> output : outputs) {
                output.memory.checkWritable();
            }
        }
        for (int i = 0; i < inputs.length; ++i) {
            Tensor<?> input = inputs[i];
            inputData[i] = input.memory.isDirect() ? input.memory.address() : block(input);
            if (!input.memory.isDirect()) {
                input.memory.copyTo(inputData[i]);
            }
        }
        if (outputs == null || outputs == inputs) {
            return;
        }
        for (int i = 0; i < outputs.length; ++i) {
            Tensor<?> output = outputs[i];
            boolean copied = !inputs[i].memory.isDirect() && inputs[i].sameFormat(output);
            outputData[i] = output.memory.isDirect() ? output.memory.address() : copied ? inputData[i] : block(output);
        }
    }

    private long block(Tensor<?> tensor) {
        long bytes = tensor.bytes();
        if (bytes == 0) {
            return 0;
        }
        long block = RawJNI.allocate(bytes);
        if (block == 0) {
            throw new OutOfMemoryError("hvd: no memory for " + bytes + " bytes outside of the heap");
        }
        if (blocks == null) {
            blocks = new long[inputs.length + outputData.length];
        }
        blocks[blockCount++] = block;
        return block;
    }

    /** Gives the memory back; the operation must have ended, or never begun. */
    void release() {
        while (blockCount > 0) {
            RawJNI.release(blocks[--blockCount]);
        }
    }

    /** Submits; the handle is scratch's output word. */
    int submit(long context, Scratch s) {
        long in = write(inputs, inputData, s);
        long out = outputs == null ? 0 : outputs == inputs ? in : write(outputs, outputData, s);
        long how = options.write(s);
        int count = inputs.length;
        switch (kind) {
            case ALLREDUCE:
                return grouped ? Raw.hvd_grouped_allreduce_async(context, in, out, count, how, s.out(), s.error())
                        : Raw.hvd_allreduce_async(context, in, out, how, s.out(), s.error());
            case ALLGATHER:
                return grouped ? Raw.hvd_grouped_allgatherv_async(context, in, out, count, how, s.out(), s.error())
                        : Raw.hvd_allgatherv_async(context, in, out, how, s.out(), s.error());
            case REDUCESCATTER:
                return grouped ? Raw.hvd_grouped_reducescatter_async(context, in, out, count, how, s.out(), s.error())
                        : Raw.hvd_reducescatter_async(context, in, out, how, s.out(), s.error());
            case BROADCAST:
                return Raw.hvd_broadcast_async(context, in, out, how, s.out(), s.error());
            case ALLTOALL:
                return Raw.hvd_alltoallv_async(context, in, writeSplits(s), out, how, s.out(), s.error());
            case GATHER:
                return Raw.hvd_gatherv_async(context, in, out, how, s.out(), s.error());
            case BARRIER:
                return Raw.hvd_barrier_async(context, how, s.out(), s.error());
            default:
                return Raw.hvd_join_async(context, how, s.out(), s.error());
        }
    }

    private static long write(Tensor<?>[] tensors, long[] data, Scratch s) {
        int place = s.takeTensors(tensors.length);
        for (int i = 0; i < tensors.length; ++i) {
            s.putTensor(place + i * Raw.SIZEOF_hvd_tensor, tensors[i], data[i]);
        }
        return s.base + place;
    }

    private long writeSplits(Scratch s) {
        if (splits == null) {
            return 0;
        }
        int place = s.take(8 * splits.length);
        for (int i = 0; i < splits.length; ++i) {
            s.bytes.putLong(place + 8 * i, splits[i]);
        }
        return s.base + place;
    }

    /** How many numbers the library would read behind the address of the splits; -1 if none are given. */
    int splitCount() {
        return splits == null ? -1 : splits.length;
    }

    /** The results of an operation that has succeeded. */
    Tensor<?>[] results(long handle, Scratch s) {
        if (kind == Kind.JOIN) {
            s.check(Raw.hvd_handle_last_joined_rank(handle, s.out(), s.error()));
            lastJoined = s.outInt();
        }
        if (outputs == null) {
            Tensor<?>[] made = new Tensor<?>[inputs.length];
            for (int i = 0; i < made.length; ++i) {
                made[i] = allocated(handle, i, s);
            }
            if (kind == Kind.ALLTOALL) {
                readSplits(handle, s);
            }
            return made;
        }
        for (int i = 0; i < outputs.length; ++i) {
            if (!outputs[i].memory.isDirect()) {
                outputs[i].memory.copyFrom(outputData[i]);
            }
        }
        return outputs;
    }

    private Tensor<?> allocated(long handle, int index, Scratch s) {
        s.reset(Raw.SIZEOF_hvd_tensor);
        int place = s.takeTensors(1);
        s.check(Raw.hvd_handle_output(handle, index, s.base + place, s.error()));
        int dimensions = s.bytes.getInt(place + Raw.OFFSETOF_hvd_tensor_ndim);
        long[] shape = new long[dimensions];
        if (dimensions > 0) {
            RawJNI.memoryToArray(s.bytes.getLong(place + Raw.OFFSETOF_hvd_tensor_shape), shape, 'J', 0, dimensions);
        }
        Tensor<?> result = inputs[index].like(inputs[index].dtype(), shape);
        result.memory.copyFrom(s.bytes.getLong(place + Raw.OFFSETOF_hvd_tensor_data));
        return result;
    }

    private void readSplits(long handle, Scratch s) {
        s.check(Raw.hvd_handle_received_splits(handle, 0, s.countAddress(), s.error()));
        int count = Math.toIntExact(s.count());
        long block = RawJNI.allocate(8L * count);
        if (block == 0) {
            throw new OutOfMemoryError("hvd: no memory for " + 8L * count + " bytes outside of the heap");
        }
        try {
            s.check(Raw.hvd_handle_received_splits(handle, block, s.countAddress(), s.error()));
            receivedSplits = new long[count];
            RawJNI.memoryToArray(block, receivedSplits, 'J', 0, count);
        } finally {
            RawJNI.release(block);
        }
    }
}
