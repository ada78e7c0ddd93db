// SPDX-License-Identifier: Apache-2.0
import io.hvd.Hvd;
import io.hvd.OpOptions;
import io.hvd.ReduceOp;
import java.util.Arrays;

/**
 * Sums an array over all ranks, then averages it in place:
 * {@code horovodrun -np 2 java -cp hvd-java-1.0.0.jar examples/java/Allreduce.java}.
 */
public class Allreduce {
    public static void main(String[] arguments) {
        try (Hvd hvd = Hvd.init()) {
            float[] mine = new float[4];
            Arrays.fill(mine, hvd.rank() + 1);

            float[] total = hvd.allreduce(mine, OpOptions.named("total").reduce(ReduceOp.SUM));
            System.out.printf("rank %d of %d: sum %s%n", hvd.rank(), hvd.size(), Arrays.toString(total));

            hvd.allreduceInPlace(mine, OpOptions.named("mean").reduce(ReduceOp.AVERAGE));
            System.out.printf("rank %d of %d: mean %s%n", hvd.rank(), hvd.size(), Arrays.toString(mine));

            float expected = hvd.size() * (hvd.size() + 1) / 2f;
            for (int i = 0; i < 4; ++i) {
                if (total[i] != expected || Math.abs(mine[i] - expected / hvd.size()) > 1e-6) {
                    throw new AssertionError("expected " + expected);
                }
            }
        }
    }
}
