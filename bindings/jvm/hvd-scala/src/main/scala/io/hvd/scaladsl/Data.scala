// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import java.nio.{ByteBuffer, DoubleBuffer, FloatBuffer, IntBuffer, LongBuffer, ShortBuffer}

import scala.annotation.implicitNotFound

import io.hvd.Tensor

/** Proof that ranks can exchange an `A`: an array, a buffer, or a `Tensor` of one. */
@implicitNotFound("ranks exchange arrays and buffers of numbers, Array[Boolean], and io.hvd.Tensor; not ${A}")
sealed trait Data[A]

object Data {
  private object Proof extends Data[Nothing]
  private def proof[A]: Data[A] = Proof.asInstanceOf[Data[A]]

  implicit val floats: Data[Array[Float]] = proof
  implicit val doubles: Data[Array[Double]] = proof
  implicit val ints: Data[Array[Int]] = proof
  implicit val longs: Data[Array[Long]] = proof
  implicit val shorts: Data[Array[Short]] = proof
  implicit val bytes: Data[Array[Byte]] = proof
  implicit val booleans: Data[Array[Boolean]] = proof
  implicit val floatBuffer: Data[FloatBuffer] = proof
  implicit val doubleBuffer: Data[DoubleBuffer] = proof
  implicit val intBuffer: Data[IntBuffer] = proof
  implicit val longBuffer: Data[LongBuffer] = proof
  implicit val shortBuffer: Data[ShortBuffer] = proof
  implicit val byteBuffer: Data[ByteBuffer] = proof
  implicit def tensor[A]: Data[Tensor[A]] = proof
}
