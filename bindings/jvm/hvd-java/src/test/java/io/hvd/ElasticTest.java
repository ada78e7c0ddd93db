// SPDX-License-Identifier: Apache-2.0
package io.hvd;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

/** In a job of one rank, whose members are fixed; jobs whose ranks die are run by scripts/suites/elastic.py. */
class ElasticTest {
    private static final class Counter implements Elastic.State {
        int step;
        private int saved;

        @Override
        public void save() {
            saved = step;
        }

        @Override
        public void restore() {
            step = saved;
        }

        @Override
        public void synchronize(Hvd hvd) {
            step = hvd.broadcast(new int[] {step}, OpOptions.named("step"))[0];
        }
    }

    private final Counter counter = new Counter();
    private int calls;

    /** An operation that fails because the job has been left. */
    private static void fail(Hvd hvd) {
        hvd.close();
        hvd.barrier();
    }

    @Test
    void aFailureBringsBackTheLatestCommit() {
        List<Integer> begun = new ArrayList<>();
        Elastic.run(counter, here -> {
            begun.add(counter.step);
            while (counter.step < 10) {
                ++counter.step;
                if (counter.step == 5 && begun.size() == 1) {
                    fail(here.hvd());
                }
                if (counter.step % 2 == 0) {
                    here.commit();
                }
            }
        });
        assertEquals(List.of(0, 4), begun);
        assertEquals(10, counter.step);
    }

    @Test
    void theThirdFailureWithoutACommitIsThrown() {
        assertThrows(HvdShutDownException.class, () -> Elastic.run(counter, here -> {
            if (++calls == 2) {
                here.commit();
            }
            fail(here.hvd());
        }));
        assertEquals(4, calls);
    }

    @Test
    void theErrorOfAFutureIsAFailureToo() {
        Elastic.run(counter, here -> {
            if (++calls == 1) {
                throw new CompletionException(HvdException.of(Status.TIMEOUT.number(), -1, 0, "planned"));
            }
        });
        assertEquals(2, calls);
        Exception other = new Exception("planned");
        assertEquals(other, assertThrows(Exception.class, () -> Elastic.run(counter, here -> {
            throw other;
        })));
    }

    @Test
    void aWrongCallIsThrownAtOnce() {
        assertThrows(HvdCallException.class, () -> Elastic.run(counter, here -> {
            ++calls;
            here.hvd().option("nonsense");
        }));
        assertEquals(1, calls);
    }

    @Test
    void membersOfAnotherJobAreFixed() {
        Team.of(1, hvd -> {
            assertEquals(new Membership(0, false, false, false), hvd.membership());
            assertEquals(Status.INVALID_STATE, assertThrows(HvdCallException.class, hvd::leave).status());
            return null;
        });
    }
}
