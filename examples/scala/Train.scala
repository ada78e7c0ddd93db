// SPDX-License-Identifier: Apache-2.0
import java.util.Locale

import io.hvd.scaladsl._

/** Trains a logistic regression, alone or with several ranks, to the same weights.
  *
  * Every rank has each size-th sample. In each step the ranks sum up their gradients, so that all go the same way; at the end
  * rank 0 trains on all samples alone and compares.
  */
object Train {
  private val Samples = 600
  private val Features = 8
  private val Steps = 200
  private val Rate = 2.0

  /** Inputs between -1 and 1, and whether a plane that the training must find has the sample above it. */
  private def sample(i: Int): (Array[Double], Boolean) = {
    val inputs = Array.tabulate(Features)(j => (i * i * 7 + i * (j + 1) * 31 + j * 57) % 199 / 99.0 - 1)
    (inputs, inputs.indices.map(j => inputs(j) * (j - 2.5)).sum > 0.5)
  }

  /** Gradient, loss and correct answers, each summed over these samples, in one array. */
  private def step(weights: Array[Double], numbers: Range): Array[Double] = {
    val sums = new Array[Double](Features + 3)
    for (i <- numbers) {
      val (inputs, above) = sample(i)
      val label = if (above) 1.0 else 0.0
      val score = inputs.indices.map(j => inputs(j) * weights(j)).sum + weights(Features)
      val off = 1 / (1 + math.exp(-score)) - label
      for (j <- inputs.indices) sums(j) += off * inputs(j)
      sums(Features) += off
      sums(Features + 1) += math.log1p(math.exp(-math.abs(score))) + math.max(score, 0) - label * score
      if ((score > 0) == above) sums(Features + 2) += 1
    }
    sums
  }

  /** Trains the weights; returns the sums of the last step. */
  private def train(weights: Array[Double], numbers: Range)(together: Array[Double] => Array[Double]): Array[Double] = {
    var sums = Array.empty[Double]
    for (_ <- 0 until Steps) {
      sums = together(step(weights, numbers))
      for (j <- weights.indices) weights(j) -= Rate * sums(j) / Samples
    }
    sums
  }

  def main(arguments: Array[String]): Unit = Hvd.run() { hvd =>
    // The ranks begin differently; then all have what rank 0 has.
    val weights = hvd.broadcast(Array.fill(Features + 1)(0.01 * (hvd.rank + 1)), Op("start"))
    val aloneWeights = weights.clone

    val sum = Op("step")
    val sums = train(weights, hvd.rank until Samples by hvd.size)(hvd.allreduceInPlace(_, sum))
    val (loss, accuracy) = (sums(Features + 1) / Samples, sums(Features + 2) / Samples)
    assert(accuracy > 0.95)
    if (hvd.rank == 0) {
      println("%d rank%s: loss %.6f, accuracy %.1f%%".formatLocal(Locale.ROOT, hvd.size, if (hvd.size > 1) "s" else "", loss, 100 * accuracy))
      val alone = train(aloneWeights, 0 until Samples)(identity)(Features + 1) / Samples
      println("alone: loss %.6f".formatLocal(Locale.ROOT, alone))
      assert(math.abs(loss - alone) < 1e-9)
      assert(weights.zip(aloneWeights).forall { case (ours, theirs) => math.abs(ours - theirs) < 1e-9 })
    }
  }
}
