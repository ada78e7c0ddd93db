// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import scala.concurrent.duration.{Duration, FiniteDuration}

import io.hvd.{OpOptions, ProcessSet, ReduceOp}

/** How one operation is meant: `Op("gradients", reduce = Average, in = Some(even))`.
  *
  * @param name unique among the operations in flight of the set; empty: matched by the order of unnamed calls
  * @param reduce for allreduce and reducescatter
  * @param in the process set; none: all ranks
  * @param root for broadcast and gather: a rank of the job, also inside a set
  * @param timeout the operation's time limit; none: the option op_timeout; infinite: no limit
  */
final case class Op(
    name: String = "",
    reduce: ReduceOp = Sum,
    in: Option[ProcessSet] = None,
    root: Int = 0,
    prescale: Double = 1.0,
    postscale: Double = 1.0,
    priority: Int = 0,
    timeout: Option[Duration] = None
) {
  private[scaladsl] lazy val options: OpOptions = {
    val limit = timeout match {
      case None => java.time.Duration.ZERO
      case Some(finite: FiniteDuration) => java.time.Duration.ofNanos(finite.toNanos)
      case Some(_) => java.time.Duration.ofNanos(-1)
    }
    OpOptions.DEFAULT
      .name(if (name.isEmpty) null else name)
      .reduce(reduce)
      .in(in.orNull)
      .root(root)
      .prescale(prescale)
      .postscale(postscale)
      .priority(priority)
      .timeout(limit)
  }
}
