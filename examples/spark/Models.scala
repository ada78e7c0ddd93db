// SPDX-License-Identifier: Apache-2.0
package io.hvd.examples.spark

/** A sample of iris.csv: four measures in centimetres, and which of three species it is. */
final case class Flower(measures: Array[Double], species: Int)

/** A model whose gradient is a sum over samples, so that ranks can share the samples. */
trait Model extends Serializable {
  def start: Array[Double]

  /** Adds gradient, loss and correct answers of one sample to `sums`, which is two longer than the weights. */
  def add(weights: Array[Double], flower: Flower, sums: Array[Double]): Unit

  def rate: Double

  /** Trains on these samples of `count` in all; `together` adds up the sums of all ranks. Weights, then loss and accuracy. */
  def train(flowers: Seq[Flower], count: Int, steps: Int)(together: Array[Double] => Array[Double]): Array[Double] = {
    val weights = start
    var sums = new Array[Double](weights.length + 2)
    for (_ <- 0 until steps) {
      val mine = new Array[Double](weights.length + 2)
      flowers.foreach(add(weights, _, mine))
      sums = together(mine)
      for (i <- weights.indices) weights(i) -= rate * sums(i) / count
    }
    weights ++ Array(sums(weights.length) / count, sums(weights.length + 1) / count)
  }
}

/** Whether a flower is of the first species: logistic regression. */
object LogisticRegression extends Model {
  def start: Array[Double] = new Array[Double](5)
  def rate: Double = 0.1

  def add(weights: Array[Double], flower: Flower, sums: Array[Double]): Unit = {
    val label = if (flower.species == 0) 1.0 else 0.0
    val score = weights(4) + (0 until 4).map(i => weights(i) * flower.measures(i)).sum
    val off = 1 / (1 + math.exp(-score)) - label
    for (i <- 0 until 4) sums(i) += off * flower.measures(i)
    sums(4) += off
    sums(5) += math.log1p(math.exp(-math.abs(score))) + math.max(score, 0) - label * score
    if ((score > 0) == (label > 0)) sums(6) += 1
  }
}

/** Which species a flower is: a perceptron with one hidden layer of tanh. */
object Perceptron extends Model {
  private val Inputs = 4
  private val Hidden = 8
  private val Species = 3
  private val Second = Hidden * (Inputs + 1)

  /** The same on every rank: small numbers of a fixed sequence. */
  def start: Array[Double] = Array.tabulate(Second + Species * (Hidden + 1))(i => ((i * 37 + 11) % 101 / 50.0 - 1) * 0.5)
  def rate: Double = 0.05

  def add(weights: Array[Double], flower: Flower, sums: Array[Double]): Unit = {
    // Roughly the mean of each measure is taken off.
    val inputs = Array(flower.measures(0) - 5.8, flower.measures(1) - 3.1, flower.measures(2) - 3.8, flower.measures(3) - 1.2)
    val hidden = Array.tabulate(Hidden) { h =>
      math.tanh(weights(h * (Inputs + 1) + Inputs) + inputs.indices.map(i => weights(h * (Inputs + 1) + i) * inputs(i)).sum)
    }
    val scores = Array.tabulate(Species) { s =>
      weights(Second + s * (Hidden + 1) + Hidden) + hidden.indices.map(h => weights(Second + s * (Hidden + 1) + h) * hidden(h)).sum
    }
    val likely = scores.map(score => math.exp(score - scores.max))
    val total = likely.sum
    val off = Array.tabulate(Species)(s => likely(s) / total - (if (s == flower.species) 1 else 0))
    for (h <- hidden.indices) {
      val back = (0 until Species).map(s => off(s) * weights(Second + s * (Hidden + 1) + h)).sum * (1 - hidden(h) * hidden(h))
      for (i <- inputs.indices) sums(h * (Inputs + 1) + i) += back * inputs(i)
      sums(h * (Inputs + 1) + Inputs) += back
      for (s <- 0 until Species) sums(Second + s * (Hidden + 1) + h) += off(s) * hidden(h)
    }
    for (s <- 0 until Species) sums(Second + s * (Hidden + 1) + Hidden) += off(s)
    sums(weights.length) -= math.log(likely(flower.species) / total)
    if (scores.indexOf(scores.max) == flower.species) sums(weights.length + 1) += 1
  }
}
