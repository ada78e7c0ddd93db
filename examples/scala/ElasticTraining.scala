// SPDX-License-Identifier: Apache-2.0
import java.util.Locale

import io.hvd.scaladsl._

/** Trains while ranks die and are replaced: `horovodrun -np 3 --min-np 1 java -cp ... ElasticTraining`. The result is the same
  * whatever happens to the ranks; an argument of 500 makes 500 steps.
  */
object ElasticTraining {
  private final case class Values(weights: Array[Double], step: Long)

  private final class Model extends Elastic.State {
    var values: Values = Values(new Array(3), 0)
    private var saved = values

    // Saved values stay as they are, because a step makes new ones.
    override def save(): Unit = saved = values
    override def restore(): Unit = values = saved

    override def synchronize(hvd: io.hvd.Hvd): Unit = {
      val job = new Hvd(hvd)
      values = Values(job.broadcast(values.weights, Op("weights")), job.broadcast(Array(values.step), Op("step")).head)
    }

    def train(hvd: Hvd): Unit = {
      val own = values.weights.zipWithIndex.map { case (weight, i) => (i * weight - 1) * (1 + values.step % 3) }
      val gradient = hvd.allreduce(own, Op("gradient", Average))
      values = Values(values.weights.zip(gradient).map { case (weight, slope) => weight - 0.05 * slope }, values.step + 1)
    }
  }

  def main(arguments: Array[String]): Unit = {
    val steps = arguments.headOption.fold(40L)(_.toLong)
    println(s"worker ${sys.env.getOrElse("HOROVOD_WORKER", "-")} pid ${ProcessHandle.current.pid}")

    val model = new Model
    Elastic.run(model) { here =>
      println(s"begins at step ${model.values.step}")
      while (model.values.step < steps) {
        model.train(here.hvd)
        Thread.sleep(20)
        here.commit()
      }
      val numbers = model.values.weights.map(" %.9f".formatLocal(Locale.ROOT, _)).mkString
      val bits = model.values.weights.map(weight => " %016x".format(java.lang.Double.doubleToRawLongBits(weight))).mkString
      println(s"came to$numbers, bits$bits, as rank ${here.hvd.rank} of ${here.hvd.size}")
    }
  }
}
