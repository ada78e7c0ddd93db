// SPDX-License-Identifier: Apache-2.0
import io.hvd.Hvd;
import io.hvd.OpOptions;
import java.util.Arrays;
import java.util.Locale;
import java.util.function.Consumer;

/**
 * Trains a logistic regression, alone or with several ranks, to the same weights: {@code horovodrun -np 2 java -cp
 * hvd-java-1.0.0.jar
 * examples/java/Train.java}.
 *
 * <p>Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go the same way; at the
 * end rank
 * 0 trains on all samples alone and compares.
 */
public class Train {
    private static final int SAMPLES = 600;
    private static final int FEATURES = 8;
    private static final int STEPS = 200;
    private static final double RATE = 2.0;

    /**
     * Inputs between -1 and 1; the last number is the label: whether a plane that the training must find has the sample above
     * it.
     */
    private static double[] sample(int i) {
        double[] sample = new double[FEATURES + 1];
        double height = 0;
        for (int j = 0; j < FEATURES; ++j) {
            sample[j] = (i * i * 7 + i * (j + 1) * 31 + j * 57) % 199 / 99.0 - 1;
            height += sample[j] * (j - 2.5);
        }
        sample[FEATURES] = height > 0.5 ? 1 : 0;
        return sample;
    }

    /** Gradient, loss and correct answers, each summed over these samples, in one array. */
    private static double[] step(double[] weights, int first, int stride) {
        double[] sums = new double[FEATURES + 3];
        for (int i = first; i < SAMPLES; i += stride) {
            double[] sample = sample(i);
            double label = sample[FEATURES];
            double score = weights[FEATURES];
            for (int j = 0; j < FEATURES; ++j) {
                score += sample[j] * weights[j];
            }
            double off = 1 / (1 + Math.exp(-score)) - label;
            for (int j = 0; j < FEATURES; ++j) {
                sums[j] += off * sample[j];
            }
            sums[FEATURES] += off;
            sums[FEATURES + 1] += Math.log1p(Math.exp(-Math.abs(score))) + Math.max(score, 0) - label * score;
            sums[FEATURES + 2] += score > 0 == label > 0 ? 1 : 0;
        }
        return sums;
    }

    /** Trains the weights; returns the sums of the last step. */
    private static double[] train(double[] weights, int first, int stride, Consumer<double[]> together) {
        double[] sums = {};
        for (int i = 0; i < STEPS; ++i) {
            sums = step(weights, first, stride);
            together.accept(sums);
            for (int j = 0; j <= FEATURES; ++j) {
                weights[j] -= RATE * sums[j] / SAMPLES;
            }
        }
        return sums;
    }

    public static void main(String[] arguments) {
        try (Hvd hvd = Hvd.init()) {
            // The ranks begin differently; then all have what rank 0 has.
            double[] weights = new double[FEATURES + 1];
            Arrays.fill(weights, 0.01 * (hvd.rank() + 1));
            hvd.broadcastInPlace(weights, OpOptions.named("start").root(0));
            double[] aloneWeights = weights.clone();

            OpOptions sum = OpOptions.named("step");
            double[] sums = train(weights, hvd.rank(), hvd.size(), mine -> hvd.allreduceInPlace(mine, sum));
            double loss = sums[FEATURES + 1] / SAMPLES;
            double accuracy = sums[FEATURES + 2] / SAMPLES;
            boolean good = accuracy > 0.95;
            if (hvd.rank() == 0) {
                System.out.printf(Locale.ROOT, "%d rank%s: loss %.6f, accuracy %.1f%%%n", hvd.size(), hvd.size() > 1 ? "s" : "", loss,
                        100 * accuracy);
                double alone = train(aloneWeights, 0, 1, mine -> { })[FEATURES + 1] / SAMPLES;
                System.out.printf(Locale.ROOT, "alone: loss %.6f%n", alone);
                good &= Math.abs(loss - alone) < 1e-9;
                for (int j = 0; j <= FEATURES; ++j) {
                    good &= Math.abs(weights[j] - aloneWeights[j]) < 1e-9;
                }
            }
            if (!good) {
                throw new AssertionError("loss " + loss + ", accuracy " + accuracy);
            }
        }
    }
}
