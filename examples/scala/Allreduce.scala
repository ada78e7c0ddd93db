// SPDX-License-Identifier: Apache-2.0
import io.hvd.scaladsl._

/** Sums an array over all ranks, then averages it in place. */
object Allreduce {
  def main(arguments: Array[String]): Unit = Hvd.run() { implicit hvd =>
    val mine = Array.fill(4)(hvd.rank + 1f)

    val total = mine.allreduce(Op("total", Sum))
    println(s"rank ${hvd.rank} of ${hvd.size}: sum ${total.mkString("[", ", ", "]")}")

    mine.allreduceInPlace(Op("mean", Average))
    println(s"rank ${hvd.rank} of ${hvd.size}: mean ${mine.mkString("[", ", ", "]")}")

    val expected = (1 to hvd.size).sum.toFloat
    assert(total.forall(_ == expected) && mine.forall(each => math.abs(each - expected / hvd.size) < 1e-6))
  }
}
