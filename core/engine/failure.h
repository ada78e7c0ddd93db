// SPDX-License-Identifier: Apache-2.0
// The failure that ends a context, from its discovery to the end of the driver's round, where it
// takes effect; and what was made at the start for the failure of having no memory. Only the driver
// uses a Failure.
#pragma once

#include <utility>

#include "base/bytes.h"
#include "base/status.h"
#include "negotiation/wire.h"
#include "topology/topology.h"

namespace hvd::engine {

class Failure {
 public:
  explicit Failure(const Topology& topology);

  // Whether a failure waits for the end of the round.
  bool pending() const { return !why_.ok(); }
  // Whether the pending failure ends operations: when the failure came the context still worked, or
  // this rank was leaving the job and the failure was the loss of a peer.
  bool counts() const { return counts_; }
  // `by`: the rank that has told of the failure, -1 if it was found out here. The first failure of
  // a round stands.
  void begin(const Status& why, negotiation::MessageType as, int by, bool counts);

  struct Pending {
    Status told;  // for the other ranks
    Status why;   // for the operations of this rank
    negotiation::MessageType as = negotiation::MessageType::kAbort;
    bool counts = false;
  };
  // The pending failure, which is pending no more.
  Pending take();

  // Having no memory. The first call returns true.
  bool begin_collapse() noexcept { return !std::exchange(collapsed_, true); }
  bool collapsed() const noexcept { return collapsed_; }
  // The reason, from the exception that is being handled. Called once.
  Status collapse_reason() noexcept;
  // The message that tells the others.
  const Bytes& no_memory_news() const noexcept { return no_memory_news_; }

 private:
  Status seen_here() const;

  const Topology& topology_;
  Status why_;
  bool counts_ = false;
  negotiation::MessageType as_ = negotiation::MessageType::kAbort;
  int by_ = -1;
  bool collapsed_ = false;
  Status no_memory_;
  Bytes no_memory_news_;
};

}  // namespace hvd::engine
