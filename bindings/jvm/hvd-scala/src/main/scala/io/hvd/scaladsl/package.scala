// SPDX-License-Identifier: Apache-2.0
package io.hvd

/** hvd for Scala: `import io.hvd.scaladsl._`. */
package object scaladsl {
  val Average: ReduceOp = ReduceOp.AVERAGE
  val Sum: ReduceOp = ReduceOp.SUM
  val Adasum: ReduceOp = ReduceOp.ADASUM
  val Min: ReduceOp = ReduceOp.MIN
  val Max: ReduceOp = ReduceOp.MAX
  val Product: ReduceOp = ReduceOp.PRODUCT

  /**
   * Collectives as methods of what they take, with the rank from the implicit scope:
   * `gradients.allreduce(Op("gradients"))`.
   */
  implicit final class Collective[A](private val data: A) extends AnyVal {
    import scala.concurrent.Future

    def allreduce(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.allreduce(data, op)
    def allreduceAsync(op: Op)(implicit hvd: Hvd, proof: Data[A]): Future[A] = hvd.allreduceAsync(data, op)
    def allreduceInPlace(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.allreduceInPlace(data, op)
    def allgather(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.allgather(data, op)
    def broadcast(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.broadcast(data, op)
    def broadcastInPlace(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.broadcastInPlace(data, op)
    def gather(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.gather(data, op)
    def reducescatter(op: Op)(implicit hvd: Hvd, proof: Data[A]): A = hvd.reducescatter(data, op)
  }
}
