// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import java.time.Duration;
import java.util.concurrent.CompletionException;

/**
 * Training that goes on after a failure; {@code docs/elastic.md} says what a job can go on after.
 *
 * <pre>{@code
 * Elastic.run(model, here -> {
 *     while (model.step < 100) {
 *         model.train(here.hvd());
 *         here.commit();
 *     }
 * });
 * }</pre>
 */
public final class Elastic {
    private static final int MOST_FAILURES = 3;
    private static final Duration GRACE = Duration.ofSeconds(5);

    /** A state that training goes on from. */
    public interface State {
        /** Keeps a copy in memory. */
        void save();

        /** Goes back to the copy that {@link #save} has kept. */
        void restore();

        /** Gives every rank the values of rank 0. */
        void synchronize(Hvd hvd);
    }

    /** A training function, which is called again and again, each time as a member of one epoch of the job. */
    public interface Training<E extends Exception> {
        void run(Elastic here) throws E;
    }

    /** Leaves a training function, whose commit has found that members are about to come or go. */
    private static final class Changed extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Changed() {
            super("the members of the job change; let this exception leave the training function", null, false, false);
        }
    }

    private final Options options;
    private final State state;
    private Hvd hvd;
    private long commits = -1; // of the whole job; -1 until this process has a state of it
    private long commitsAtFailure = -1;
    private int failures;

    private Elastic(Options options, State state) {
        this.options = options.copy();
        this.state = state;
    }

    /** The same with everything else from the environment. */
    public static <E extends Exception> void run(State state, Training<E> training) throws E {
        run(new Options(), state, training);
    }

    /**
     * Joins the job and calls the training, again and again, each time as a member of the job's next epoch, until the training
     * returns; then leaves the job. Under {@code horovodrun --min-np} other ranks may die, leave and come meanwhile; in a job of
     * fixed members the training begins again after an operation that failed.
     *
     * <p>A failed operation brings back the latest commit. The third failure in a row without a commit in between is thrown,
     * except for ranks that died, which the launcher counts. A process that has no place in the job any more ends here, with
     * exit code 0.
     */
    public static <E extends Exception> void run(Options options, State state, Training<E> training) throws E {
        Elastic here = new Elastic(options, state);
        state.save();
        while (!here.ends(training)) {
            // The next epoch.
        }
    }

    /** The job of the present epoch. Process sets end with it. */
    public Hvd hvd() {
        return hvd;
    }

    /**
     * Saves the state, to which a failure from now on goes back. All ranks commit after the same steps. If members are about to
     * come or go, the training is left by an exception, and called again.
     */
    public void commit() {
        state.save();
        ++commits;
        Membership members = hvd.membership();
        // Every language does the same, so that ranks of several languages can be one job.
        OpOptions largest = OpOptions.named("hvd.elastic.commit").reduce(ReduceOp.MAX);
        if (members.epoch() > 0 && hvd.allreduce(new int[] {members.changes()}, largest)[0] != 0) {
            throw new Changed();
        }
    }

    /** One epoch; false if training has to begin again. */
    private <E extends Exception> boolean ends(Training<E> training) throws E {
        hvd = join();
        try {
            takeOver();
            training.run(this);
            return true;
        } catch (Changed agreed) {
            return false; // the state is that of the commit
        } catch (HvdException | CompletionException error) {
            if (!mayGoOn(error instanceof HvdException ? error : error.getCause())) {
                throw error;
            }
            state.restore();
            return false;
        } finally {
            leave();
        }
    }

    private void leave() {
        try {
            hvd.close(GRACE);
        } catch (HvdException over) {
            // The job is over, whatever became of it.
        }
    }

    private Hvd join() {
        options.set("membership_position", Long.toString(commits));
        for (;;) {
            try {
                return Hvd.init(options);
            } catch (HvdException error) {
                if (error.status() == Status.DISMISSED && error.sysErrno() == 0) { // in order, and not expelled
                    System.exit(0);
                }
                // Where another member has ended on its way, the launcher knows, and decides anew.
                boolean otherEnded = error.status() == Status.PEER_LOST || error.status() == Status.SHUT_DOWN
                        || error.status() == Status.TIMEOUT;
                if (!otherEnded || !isElastic()) {
                    throw error;
                }
            }
        }
    }

    private void takeOver() {
        Membership members = hvd.membership();
        if (members.synchronize() || members.epoch() == 0) {
            state.synchronize(hvd);
            commits = hvd.broadcast(new long[] {Math.max(0, commits)}, OpOptions.named("hvd.elastic.commits").root(0))[0];
            state.save();
        }
    }

    private boolean mayGoOn(Throwable failure) {
        if (!(failure instanceof HvdException error)) {
            return false;
        }
        int number = error.status().number();
        if (number > Status.MISMATCH.number() || number <= Status.INTERNAL.number()) {
            return false; // the call was wrong, or the library
        }
        boolean lost = error.status() == Status.PEER_LOST;
        failures = commits == commitsAtFailure ? failures : 0;
        commitsAtFailure = commits;
        failures += lost && isElastic() ? 0 : 1;
        return failures < MOST_FAILURES && (!lost || isElastic());
    }

    private static boolean isElastic() {
        String path = System.getenv("HOROVOD_MEMBERSHIP");
        return path != null && !path.isEmpty();
    }
}
