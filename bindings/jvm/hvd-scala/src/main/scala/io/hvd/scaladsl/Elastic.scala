// SPDX-License-Identifier: Apache-2.0
package io.hvd.scaladsl

import io.hvd.Options

/** One call of a training that goes on after a failure; a thin layer over `io.hvd.Elastic`, which it gives as `java`. */
final class Elastic private (val java: io.hvd.Elastic) {

  /** The job of the present epoch. */
  val hvd: Hvd = new Hvd(java.hvd)

  /** Saves the state. If members are about to come or go, the training is left by an exception, and called again. */
  def commit(): Unit = java.commit()
}

object Elastic {
  /** A state that training goes on from. */
  type State = io.hvd.Elastic.State

  /** Joins the job and does this, again and again, each time as a member of the job's next epoch, until it returns. */
  def run(state: State, options: Options = new Options)(training: Elastic => Unit): Unit =
    io.hvd.Elastic.run[Exception](options, state, (here: io.hvd.Elastic) => training(new Elastic(here)))
}
