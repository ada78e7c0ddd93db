// SPDX-License-Identifier: Apache-2.0
package io.hvd.spark

import scala.concurrent.duration._

/** How ranks are started.
  *
  * @param options settings of the library, as `io.hvd.Options.set` takes them
  * @param startTimeout for a rank to find all others once its task runs
  * @param slotsTimeout for executors to register that have room for all ranks
  */
final case class Settings(
    options: Map[String, String] = Map.empty,
    startTimeout: FiniteDuration = 1.minute,
    slotsTimeout: FiniteDuration = 30.seconds
)
