// SPDX-License-Identifier: Apache-2.0
import io.hvd.scaladsl._

/** Even and odd ranks reduce apart, at the same time: start it with four ranks. */
object ProcessSets {
  def main(arguments: Array[String]): Unit = Hvd.run() { hvd =>
    require(hvd.size >= 2, "start this with at least 2 ranks")
    // Every rank creates every set, also those it is not in, in the same order.
    val even = hvd.createProcessSet((0 until hvd.size by 2): _*)
    val odd = hvd.createProcessSet((1 until hvd.size by 2): _*)
    val mine = if (even.included) even else odd

    val total = hvd.allreduce(Array(hvd.rank.toLong), Op("total", in = Some(mine))).head
    println(
      s"rank ${hvd.rank} is ${mine.rank} of ${mine.size} in ${mine.ranks.mkString("[", ", ", "]")}: sum of the ranks $total"
    )
    assert(total == mine.ranks.sum)

    odd.destroy()
    even.destroy()
  }
}
