// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;

/**
 * The collectives of a rank. Each takes a primitive array, a buffer or a {@link Tensor}, and gives the result as the same type.
 *
 * <p>The plain form waits. {@code ...InPlace} writes the result over its argument, {@code ...Async} returns a future at once.
 * The
 * future completes on a thread of this package, where its dependents may wait for other operations. A tensor belongs to the
 * operation until it has ended; cancelling the future does not end it. Errors of the library are {@link HvdException}s.
 */
public abstract class Collectives {
    Collectives() {}

    abstract Context context();

    abstract Hvd self();

    // ---- allreduce ----

    /** The reduction of all ranks' tensors, which have the same shape everywhere. */
    public <A> A allreduce(A data, OpOptions options) {
        Tensor<A> input = tensor(data);
        return result(data, run(reducing(Kind.ALLREDUCE, input, options))[0]);
    }

    /** The same without a name. */
    public <A> A allreduce(A data, ReduceOp op) {
        return allreduce(data, OpOptions.reducing(op));
    }

    /** Writes the reduction over the tensor, and returns it. */
    public <A> A allreduceInPlace(A data, OpOptions options) {
        Tensor<A> tensor = tensor(data);
        run(Operation.single(Kind.ALLREDUCE, tensor, tensor, options));
        return data;
    }

    /** Writes the reduction of `input` to `output`, which has the same dtype and shape. */
    public void allreduce(Tensor<?> input, Tensor<?> output, OpOptions options) {
        run(Operation.single(Kind.ALLREDUCE, Objects.requireNonNull(input, "input"),
                Objects.requireNonNull(output, "output"), options));
    }

    public <A> CompletableFuture<A> allreduceAsync(A data, OpOptions options) {
        Tensor<A> input = tensor(data);
        return start(reducing(Kind.ALLREDUCE, input, options), made -> result(data, made[0]));
    }

    public <A> CompletableFuture<A> allreduceInPlaceAsync(A data, OpOptions options) {
        Tensor<A> tensor = tensor(data);
        return start(Operation.single(Kind.ALLREDUCE, tensor, tensor, options), made -> data);
    }

    /** Several tensors as one operation: none starts before all are ready on every rank. */
    public <A> List<A> groupedAllreduce(List<A> data, OpOptions options) {
        return results(data, run(outOfPlace(Kind.ALLREDUCE, data, options)));
    }

    public <A> List<A> groupedAllreduceInPlace(List<A> data, OpOptions options) {
        List<Tensor<?>> tensors = tensors(data);
        run(Operation.group(Kind.ALLREDUCE, tensors, tensors, options));
        return data;
    }

    public <A> CompletableFuture<List<A>> groupedAllreduceAsync(List<A> data, OpOptions options) {
        List<A> own = new ArrayList<>(data);
        return start(outOfPlace(Kind.ALLREDUCE, own, options), made -> results(own, made));
    }

    public <A> CompletableFuture<List<A>> groupedAllreduceInPlaceAsync(List<A> data, OpOptions options) {
        List<Tensor<?>> tensors = tensors(data);
        return start(Operation.group(Kind.ALLREDUCE, tensors, tensors, options), made -> data);
    }

    // ---- allgather ----

    /** The tensors of all ranks, one after another along the first dimension, which may differ per rank. */
    public <A> A allgather(A data, OpOptions options) {
        return result(data, run(Operation.single(Kind.ALLGATHER, tensor(data), null, options))[0]);
    }

    public <A> CompletableFuture<A> allgatherAsync(A data, OpOptions options) {
        return start(Operation.single(Kind.ALLGATHER, tensor(data), null, options), made -> result(data, made[0]));
    }

    public <A> List<A> groupedAllgather(List<A> data, OpOptions options) {
        return results(data, run(Operation.group(Kind.ALLGATHER, tensors(data), null, options)));
    }

    public <A> CompletableFuture<List<A>> groupedAllgatherAsync(List<A> data, OpOptions options) {
        List<A> own = new ArrayList<>(data);
        return start(Operation.group(Kind.ALLGATHER, tensors(own), null, options), made -> results(own, made));
    }

    // ---- broadcast ----

    /** The tensor of the rank {@link OpOptions#root}; others give shape and dtype. */
    public <A> A broadcast(A data, OpOptions options) {
        return result(data, run(reducing(Kind.BROADCAST, tensor(data), options))[0]);
    }

    public <A> A broadcastInPlace(A data, OpOptions options) {
        Tensor<A> tensor = tensor(data);
        run(Operation.single(Kind.BROADCAST, tensor, tensor, options));
        return data;
    }

    public <A> CompletableFuture<A> broadcastAsync(A data, OpOptions options) {
        return start(reducing(Kind.BROADCAST, tensor(data), options), made -> result(data, made[0]));
    }

    public <A> CompletableFuture<A> broadcastInPlaceAsync(A data, OpOptions options) {
        Tensor<A> tensor = tensor(data);
        return start(Operation.single(Kind.BROADCAST, tensor, tensor, options), made -> data);
    }

    // ---- gather ----

    /**
     * On the rank {@link OpOptions#root} the tensors of all ranks, one after another along the first dimension, which may differ
     * per rank; on the others a tensor without rows.
     */
    public <A> A gather(A data, OpOptions options) {
        return result(data, run(Operation.single(Kind.GATHER, tensor(data), null, options))[0]);
    }

    public <A> CompletableFuture<A> gatherAsync(A data, OpOptions options) {
        return start(Operation.single(Kind.GATHER, tensor(data), null, options), made -> result(data, made[0]));
    }

    // ---- alltoall ----

    /** What alltoall gives: the rows of all ranks for this one, and how many came from each. */
    public static final class Received<A> {
        private final A data;
        private final long[] splits;

        Received(A data, long[] splits) {
            this.data = data;
            this.splits = splits;
        }

        public A data() {
            return data;
        }

        public long[] splits() {
            return splits.clone();
        }
    }

    /** Sends {@code splits[i]} rows to the i-th rank of the set; null: equal parts. */
    public <A> Received<A> alltoall(A data, long[] splits, OpOptions options) {
        Operation operation = exchange(data, splits, options);
        return new Received<>(result(data, run(operation)[0]), operation.receivedSplits);
    }

    public <A> CompletableFuture<Received<A>> alltoallAsync(A data, long[] splits, OpOptions options) {
        Operation operation = exchange(data, splits, options);
        return start(operation, made -> new Received<>(result(data, made[0]), operation.receivedSplits));
    }

    private Operation exchange(Object data, long[] splits, OpOptions options) {
        Operation operation = Operation.alltoall(tensor(data), splits, options);
        int members = options.set() == null ? self().size() : options.set().size();
        if (splits != null && splits.length != members) {
            throw new IllegalArgumentException("alltoall: " + splits.length + " splits for " + members + " ranks");
        }
        return operation;
    }

    // ---- reducescatter ----

    /** The reduction, of whose rows each rank gets its part. */
    public <A> A reducescatter(A data, OpOptions options) {
        return result(data, run(Operation.single(Kind.REDUCESCATTER, tensor(data), null, options))[0]);
    }

    public <A> CompletableFuture<A> reducescatterAsync(A data, OpOptions options) {
        return start(Operation.single(Kind.REDUCESCATTER, tensor(data), null, options), made -> result(data, made[0]));
    }

    public <A> List<A> groupedReducescatter(List<A> data, OpOptions options) {
        return results(data, run(Operation.group(Kind.REDUCESCATTER, tensors(data), null, options)));
    }

    public <A> CompletableFuture<List<A>> groupedReducescatterAsync(List<A> data, OpOptions options) {
        List<A> own = new ArrayList<>(data);
        return start(Operation.group(Kind.REDUCESCATTER, tensors(own), null, options), made -> results(own, made));
    }

    // ---- barrier, join ----

    /** Returns on no rank before every rank of the set has called it. */
    public void barrier(OpOptions options) {
        run(Operation.plain(Kind.BARRIER, options));
    }

    public void barrier() {
        barrier(OpOptions.DEFAULT);
    }

    public CompletableFuture<Void> barrierAsync(OpOptions options) {
        return start(Operation.plain(Kind.BARRIER, options), made -> null);
    }

    /** This rank has no more data: it takes part in allreduces of the others until all have joined. Returns who joined last. */
    public int join(OpOptions options) {
        Operation operation = Operation.plain(Kind.JOIN, options);
        run(operation);
        return operation.lastJoined;
    }

    public int join() {
        return join(OpOptions.DEFAULT);
    }

    public CompletableFuture<Integer> joinAsync(OpOptions options) {
        Operation operation = Operation.plain(Kind.JOIN, options);
        return start(operation, made -> operation.lastJoined);
    }

    // ---- helpers ----

    private Tensor<?>[] run(Operation operation) {
        checkSet(operation);
        try {
            return context().run(operation);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private <R> CompletableFuture<R> start(Operation operation, java.util.function.Function<Tensor<?>[], R> convert) {
        checkSet(operation);
        return context().start(operation, convert, self());
    }

    private void checkSet(Operation operation) {
        ProcessSet set = operation.set();
        if (set != null && !set.belongsTo(self())) {
            throw new IllegalArgumentException("options: the " + set + " belongs to another context");
        }
    }

    /** An operation whose result has the shape of its input, out of place. */
    private static Operation reducing(Kind kind, Tensor<?> input, OpOptions options) {
        return Operation.single(kind, input, input.like(input.dtype(), input.shape()), options);
    }

    private static Operation outOfPlace(Kind kind, List<?> data, OpOptions options) {
        List<Tensor<?>> inputs = tensors(data);
        List<Tensor<?>> outputs = new ArrayList<>();
        for (Tensor<?> input : inputs) {
            outputs.add(input.like(input.dtype(), input.shape()));
        }
        return Operation.group(kind, inputs, outputs, options);
    }

    @SuppressWarnings("unchecked")
    private static <A> Tensor<A> tensor(A data) {
        return data instanceof Tensor ? (Tensor<A>) data : Tensor.of(data);
    }

    private static List<Tensor<?>> tensors(List<?> data) {
        List<Tensor<?>> found = new ArrayList<>();
        for (Object each : Objects.requireNonNull(data, "group")) {
            found.add(tensor(each));
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private static <A> A result(A given, Tensor<?> made) {
        return given instanceof Tensor ? (A) made : (A) made.storage();
    }

    private static <A> List<A> results(List<A> given, Tensor<?>[] made) {
        List<A> found = new ArrayList<>();
        for (int i = 0; i < made.length; ++i) {
            found.add(result(given.get(i), made[i]));
        }
        return Collections.unmodifiableList(found);
    }
}
