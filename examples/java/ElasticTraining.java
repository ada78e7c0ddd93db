// SPDX-License-Identifier: Apache-2.0
import io.hvd.Elastic;
import io.hvd.Hvd;
import io.hvd.OpOptions;
import io.hvd.ReduceOp;
import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/**
 * Trains while ranks die and are replaced: {@code horovodrun -np 3 --min-np 1 java -cp hvd-java-1.0.0.jar
 * examples/java/ElasticTraining.java}. The result is the same whatever happens to the ranks; an argument of 500 makes 500 steps.
 */
public class ElasticTraining implements Elastic.State {
    private double[] weights = new double[3];
    private long step;
    private double[] savedWeights;
    private long savedStep;

    @Override
    public void save() {
        savedWeights = weights.clone();
        savedStep = step;
    }

    @Override
    public void restore() {
        weights = savedWeights.clone();
        step = savedStep;
    }

    @Override
    public void synchronize(Hvd hvd) {
        hvd.broadcastInPlace(weights, OpOptions.named("weights").root(0));
        step = hvd.broadcast(new long[] {step}, OpOptions.named("step").root(0))[0];
    }

    private void train(Hvd hvd) {
        double[] gradient = new double[weights.length];
        for (int i = 0; i < gradient.length; ++i) {
            gradient[i] = (i * weights[i] - 1) * (1 + step % 3);
        }
        hvd.allreduceInPlace(gradient, OpOptions.named("gradient").reduce(ReduceOp.AVERAGE));
        for (int i = 0; i < gradient.length; ++i) {
            weights[i] -= 0.05 * gradient[i];
        }
        ++step;
    }

    private String text() {
        String numbers = Arrays.stream(weights).mapToObj(weight -> String.format(Locale.ROOT, " %.9f", weight)).collect(Collectors.joining());
        String bits = Arrays.stream(weights).mapToObj(weight -> String.format(" %016x", Double.doubleToRawLongBits(weight)))
                .collect(Collectors.joining());
        return numbers + ", bits" + bits;
    }

    public static void main(String[] arguments) throws InterruptedException {
        long steps = arguments.length > 0 ? Long.parseLong(arguments[0]) : 40;
        String worker = System.getenv("HOROVOD_WORKER");
        System.out.println("worker " + (worker == null ? "-" : worker) + " pid " + ProcessHandle.current().pid());

        ElasticTraining model = new ElasticTraining();
        Elastic.run(model, here -> {
            System.out.println("begins at step " + model.step);
            while (model.step < steps) {
                model.train(here.hvd());
                Thread.sleep(20);
                here.commit();
            }
            System.out.println("came to" + model.text() + ", as rank " + here.hvd().rank() + " of " + here.hvd().size());
        });
    }
}
