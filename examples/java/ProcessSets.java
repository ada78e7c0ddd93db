// SPDX-License-Identifier: Apache-2.0
import io.hvd.Hvd;
import io.hvd.OpOptions;
import io.hvd.ProcessSet;
import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * Even and odd ranks reduce apart, at the same time:
 * {@code horovodrun -np 4 java -cp hvd-java-1.0.0.jar examples/java/ProcessSets.java}.
 */
public class ProcessSets {
    public static void main(String[] arguments) {
        try (Hvd hvd = Hvd.init()) {
            if (hvd.size() < 2) {
                throw new IllegalStateException("start this with at least 2 ranks");
            }
            // Every rank creates every set, also those it is not in, in the same order.
            ProcessSet even = hvd.createProcessSet(IntStream.range(0, hvd.size()).filter(rank -> rank % 2 == 0).toArray());
            ProcessSet odd = hvd.createProcessSet(IntStream.range(0, hvd.size()).filter(rank -> rank % 2 == 1).toArray());
            ProcessSet mine = even.included() ? even : odd;

            long[] total = hvd.allreduce(new long[] {hvd.rank()}, OpOptions.named("total").in(mine));
            System.out.printf("rank %d is %d of %d in %s: sum of the ranks %d%n", hvd.rank(), mine.rank(), mine.size(),
                    Arrays.toString(mine.ranks()), total[0]);
            if (total[0] != Arrays.stream(mine.ranks()).sum()) {
                throw new AssertionError("wrong sum");
            }

            odd.destroy();
            even.destroy();
        }
    }
}
