// SPDX-License-Identifier: Apache-2.0
package io.hvd.examples.spark

import java.util.Locale

import org.apache.spark.sql.{Row, SparkSession}

import io.hvd.scaladsl._
import io.hvd.spark.HvdSpark

/** Trains two models on Fisher's irises in the executors, each rank on its partition, and compares with one process:
  * `spark-submit --class io.hvd.examples.spark.TrainIris ... iris.csv 2`.
  */
object TrainIris {
  private val Steps = 300

  private def flowerOf(row: Row): Flower =
    Flower(Array.tabulate(4)(row.getAs[Number](_).doubleValue), row.getAs[Number](4).intValue)

  private def ofRank(hvd: Hvd, model: Model, flowers: Seq[Flower], count: Int): Array[Double] = {
    val op = Op("step")
    model.train(flowers, count, Steps)(hvd.allreduceInPlace(_, op))
  }

  /** How far the ranks' weights are from those of one process, at most; all ranks must have the same. */
  private def compare(name: String, ranks: Seq[Array[Double]], alone: Array[Double]): Unit = {
    val apart = ranks.flatMap(_.zip(alone).map { case (ours, theirs) => math.abs(ours - theirs) }).max
    val Seq(loss, accuracy) = ranks.head.takeRight(2).toSeq
    println("%s: %d ranks: loss %.6f, accuracy %.1f%%; alone: loss %.6f".formatLocal(
      Locale.ROOT, name, ranks.size, loss, 100 * accuracy, alone(alone.length - 2)))
    if (apart > 1e-9 || !ranks.forall(_.sameElements(ranks.head)) || accuracy < 0.95) {
      throw new IllegalStateException(s"$name: $apart apart from one process, accuracy $accuracy")
    }
  }

  /** Trains on an RDD and on a DataFrame. */
  def train(spark: SparkSession, file: String, ranks: Int): Unit = {
    val frame = spark.read.option("header", "true").option("inferSchema", "true").csv(file)
    val all = frame.collect().toSeq.map(flowerOf)
    val count = all.size

    val rdd = spark.sparkContext.parallelize(all, ranks)
    for ((name, model) <- Seq("logistic regression" -> LogisticRegression, "perceptron" -> Perceptron)) {
      val alone = model.train(all, count, Steps)(identity)
      compare(s"$name, RDD", HvdSpark.run(rdd)((hvd, flowers: Iterator[Flower]) => ofRank(hvd, model, flowers.toSeq, count)), alone)
      compare(
        s"$name, DataFrame",
        HvdSpark.run(frame, ranks)((hvd, rows) => ofRank(hvd, model, rows.map(flowerOf).toSeq, count)),
        alone
      )
    }
  }

  def main(arguments: Array[String]): Unit = {
    val spark = SparkSession.builder().appName("hvd iris").getOrCreate()
    try train(spark, arguments(0), arguments(1).toInt)
    finally spark.stop()
  }
}
