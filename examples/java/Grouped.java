// SPDX-License-Identifier: Apache-2.0
import io.hvd.Hvd;
import io.hvd.OpOptions;
import io.hvd.ReduceOp;
import io.hvd.Tensor;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/**
 * Reduces several arrays as one operation, and gathers arrays of different lengths:
 * {@code horovodrun -np 2 java -cp hvd-java-1.0.0.jar examples/java/Grouped.java}.
 */
public class Grouped {
    public static void main(String[] arguments) {
        try (Hvd hvd = Hvd.init()) {
            int rank = hvd.rank();
            List<Tensor<float[]>> gradients = new ArrayList<>();
            for (int rows : new int[] {1, 2, 5}) {
                float[] gradient = new float[rows * 3];
                Arrays.fill(gradient, rank);
                gradients.add(Tensor.of(gradient, rows, 3));
            }

            // The group is reduced together or not at all, whatever the order in which the ranks submit other operations.
            List<Tensor<float[]>> means = hvd.groupedAllreduce(gradients, OpOptions.named("gradients").reduce(ReduceOp.AVERAGE));
            List<String> shapes = means.stream().map(mean -> "(" + mean.extent(0) + ", " + mean.extent(1) + ")").toList();
            System.out.printf("rank %d: mean of the ranks %s, shapes %s%n", rank, means.get(0).storage()[0], shapes);
            if (means.get(2).storage()[14] != (hvd.size() - 1) / 2f) {
                throw new AssertionError("expected " + (hvd.size() - 1) / 2f);
            }

            // Rank r brings r + 1 rows.
            long[] mine = new long[(rank + 1) * 2];
            Arrays.fill(mine, rank);
            Tensor<long[]> rows = hvd.allgather(Tensor.of(mine, rank + 1, 2), OpOptions.named("rows"));
            List<Long> column = new ArrayList<>();
            for (int i = 0; i < rows.extent(0); ++i) {
                column.add(rows.storage()[2 * i]);
            }
            System.out.printf("rank %d: gathered %d rows, first column %s%n", rank, rows.extent(0), column);
            if (rows.extent(0) != hvd.size() * (hvd.size() + 1) / 2) {
                throw new AssertionError("wrong number of rows");
            }

            // Asynchronous: start, do something else, then wait.
            CompletableFuture<double[]> later = hvd.allreduceAsync(new double[] {0, 1, 2}, OpOptions.named("later"));
            System.out.printf("rank %d: later %s%n", rank, Arrays.toString(later.join()));
        }
    }
}
