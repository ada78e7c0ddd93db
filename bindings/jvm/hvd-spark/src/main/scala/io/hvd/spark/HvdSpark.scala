// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import scala.reflect.ClassTag

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.{BarrierTaskContext, HashPartitioner, SparkContext}

import io.hvd.scaladsl.Hvd

/** Ranks in the executors of Spark: each task of a barrier stage is one.
  *
  * {{{
  * val sums: Seq[Float] = HvdSpark.run(spark.sparkContext, numTasks = 2) { hvd =>
  *   hvd.allreduce(Array[Float](hvd.rank)).head
  * }
  * }}}
  *
  * All forms return the results in the order of the ranks, which is that of the partitions. If a task fails or its executor is
  * lost, the other ranks are stopped and do not cover its error with theirs, and Spark starts the whole stage anew, at most
  * `spark.stage.maxConsecutiveAttempts` times in all. Then every rank does its part from the beginning.
  */
object HvdSpark {

  /** As many ranks as tasks. */
  def run[R: ClassTag](context: SparkContext, numTasks: Int, settings: Settings = Settings())(part: Hvd => R): Seq[R] = {
    require(numTasks > 0, s"HvdSpark.run: numTasks is $numTasks; at least 1 is needed")
    run(context.parallelize(0 until numTasks, numTasks), settings)((hvd, _: Iterator[Int]) => part(hvd))
  }

  /** A rank per partition of an RDD, whose elements it gets. */
  def run[T: ClassTag, R: ClassTag](rdd: RDD[T], settings: Settings)(part: (Hvd, Iterator[T]) => R): Seq[R] = {
    val ranks = rdd.getNumPartitions
    Conditions.check(rdd.sparkContext, ranks, settings.slotsTimeout)
    val results = rdd.barrier().mapPartitions { rows =>
      val task = BarrierTaskContext.get()
      Iterator.single((task.partitionId(), Rank.run(task, settings)(part(_, rows))))
    }
    // Spark tries a barrier stage again only if its results go into a shuffle: others may have been handed out already.
    results.partitionBy(new HashPartitioner(ranks)).values.collect().toSeq
  }

  /** The same with the usual settings. */
  def run[T: ClassTag, R: ClassTag](rdd: RDD[T])(part: (Hvd, Iterator[T]) => R): Seq[R] = run(rdd, Settings())(part)

  /** `numTasks` ranks that share the rows of a DataFrame, by a shuffle. */
  def run[R: ClassTag](frame: DataFrame, numTasks: Int, settings: Settings)(part: (Hvd, Iterator[Row]) => R): Seq[R] = {
    require(numTasks > 0, s"HvdSpark.run: numTasks is $numTasks; at least 1 is needed")
    // A barrier stage must not hang on operations that change the number of partitions; a shuffle cuts it off from those.
    run(frame.rdd.repartition(numTasks), settings)(part)
  }

  /** The same with the usual settings. */
  def run[R: ClassTag](frame: DataFrame, numTasks: Int)(part: (Hvd, Iterator[Row]) => R): Seq[R] =
    run(frame, numTasks, Settings())(part)
}
