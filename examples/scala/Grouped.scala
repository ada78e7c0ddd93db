// SPDX-License-Identifier: Apache-2.0
import scala.concurrent.Await
import scala.concurrent.duration._

import io.hvd.Tensor
import io.hvd.scaladsl._

/** Reduces several arrays as one operation, and gathers arrays of different lengths. */
object Grouped {
  def main(arguments: Array[String]): Unit = Hvd.run() { hvd =>
    val gradients = Seq(1, 2, 5).map(rows => Tensor.of(Array.fill(rows * 3)(hvd.rank.toFloat), rows.toLong, 3L))

    // The group is reduced together or not at all, whatever the order in which the ranks submit other operations.
    val means = hvd.groupedAllreduce(gradients, Op("gradients", Average))
    val shapes = means.map(_.shape.mkString("(", ", ", ")")).mkString("[", ", ", "]")
    println(s"rank ${hvd.rank}: mean of the ranks ${means.head.storage.head}, shapes $shapes")
    assert(means.forall(_.storage.forall(_ == (hvd.size - 1) / 2f)))

    // Rank r brings r + 1 rows.
    val rows = hvd.allgather(Tensor.of(Array.fill((hvd.rank + 1) * 2)(hvd.rank.toLong), hvd.rank + 1L, 2L), Op("rows"))
    val column = rows.storage.grouped(2).map(_.head).mkString("[", ", ", "]")
    println(s"rank ${hvd.rank}: gathered ${rows.extent(0)} rows, first column $column")
    assert(rows.extent(0) == (1 to hvd.size).sum)

    // Asynchronous: start, do something else, then wait.
    val later = hvd.allreduceAsync(Array(0.0, 1.0, 2.0), Op("later"))
    println(s"rank ${hvd.rank}: later ${Await.result(later, 1.minute).mkString("[", ", ", "]")}")
  }
}
