// SPDX-License-Identifier: Apache-2.0
#include "engine/failure.h"

#include <cerrno>
#include <exception>
#include <new>
#include <string>

namespace hvd::engine {

Failure::Failure(const Topology& topology) : topology_(topology) {
  const int me = topology.rank();
  const std::string fact = topology.describe(me) + " has no memory left for its part";
  no_memory_ = Status(Code::kIo, fact).with_rank(me).with_errno(ENOMEM);
  negotiation::put_head(no_memory_news_, {negotiation::MessageType::kAbort, 0});
  negotiation::put_status(no_memory_news_, Status(Code::kPeerLost, fact).with_rank(me));
}

void Failure::begin(const Status& why, negotiation::MessageType as, int by, bool counts) {
  if (pending()) return;
  why_ = why;
  as_ = as;
  by_ = by;
  counts_ = counts;
}

// The failure as this rank's operations are told of it. If the others give up this rank, this rank
// may have stood still for long, and what this rank sees next of the others is no fault of theirs.
Status Failure::seen_here() const {
  if (by_ < 0 || why_.rank() != topology_.rank()) return why_;
  const std::string text = topology_.describe(by_) + " gave this rank up: " + why_.message();
  return Status(why_.code(), text).with_rank(why_.rank());
}

Failure::Pending Failure::take() {
  Pending pending{why_, seen_here(), as_, counts_};
  why_ = {};
  return pending;
}

Status Failure::collapse_reason() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return std::move(no_memory_);
  } catch (const std::exception& caught) {
    try {
      const int me = topology_.rank();
      return Status(Code::kInternal, topology_.describe(me) + ": " + caught.what()).with_rank(me);
    } catch (...) {
      return std::move(no_memory_);
    }
  } catch (...) {
    return std::move(no_memory_);
  }
}

}  // namespace hvd::engine
