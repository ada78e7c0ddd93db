// SPDX-License-Identifier: Apache-2.0
// Coordinator: the eager exchange. In a set of two members on two hosts the coordinator sends its
// own payload of an eager operation to the other member at once, if the announcement of that member
// has not arrived yet. Each member then reduces both payloads, in member order, as soon as it has
// both: the operation takes one way between the hosts instead of one there and back.
//
// Whether the other member finishes with the payload follows from that member's announcement alone
// (Member::take), so both sides know the outcome without a further message. Should the use end
// otherwise meanwhile (a timeout, a join), the payload is retracted. The announcement that comes
// before the confirmation belongs to a use that the member has finished with the payload, or will
// when the payload reaches it: messages keep their order.
#include <algorithm>

#include "negotiation/coordinator.h"

namespace hvd::negotiation {

bool Coordinator::may_exchange_eagerly(const Instance& instance, const ReadyEntry& entry) const {
  const bool waits = instance.pending && !instance.complete && instance.arrived_count == 1;
  const bool owes = std::any_of(instance.expired.begin(), instance.expired.end(),
                                [](uint32_t uses) { return uses != 0; });
  const bool joining = joined_count_ > 0 || join_held_[1] != 0;
  return waits && entry.id != 0 && entry.eager && instance.exchange == EagerExchange::kNone &&
         !owes && !joining;
}

void Coordinator::begin_eager_exchange(Instance& instance, std::span<const std::byte> payload) {
  instance.exchange = EagerExchange::kBegun;
  message_.clear();
  put_head(message_, {MessageType::kEagerPayload, settings_.set});
  ByteWriter(message_).put(instance.id);
  ByteWriter(message_).put(instance.use);
  const auto behind = put_payload(message_, payload);
  out_.to_member(1, message_, false, behind);
}

// True if this announcement is of a use that has ended here, and that the member has finished, or
// will finish, with the payload.
bool Coordinator::answers_eager_exchange(Instance& instance, const ReadyEntry& entry) {
  const bool uses = entry.id != 0 && entry.eager;
  switch (instance.exchange) {
    case EagerExchange::kNone:
    case EagerExchange::kAnswered: return false;
    case EagerExchange::kBegun:
      if (!uses) instance.exchange = EagerExchange::kNone;
      return false;
    case EagerExchange::kRetracted: break;
  }
  instance.exchange = EagerExchange::kAnswered;
  if (!uses) return false;
  if (!instance.expired.empty() && instance.expired[1] != 0) --instance.expired[1];
  return true;
}

void Coordinator::retract(Instance& instance) {
  instance.exchange = EagerExchange::kRetracted;
  Bytes message;  // the end of the use may be under way in message_
  put_head(message, {MessageType::kRetract, settings_.set});
  put_short_text(message, instance.name);
  out_.to_member(1, message, false);
}

Status Coordinator::on_retracted(ByteReader& in) {
  if (closed()) return {};  // the exchanges are forgotten
  const auto found = by_name_.find(get_short_text(in));
  if (!in.ok() || !in.at_end() || found == by_name_.end() ||
      found->second->exchange < EagerExchange::kRetracted) {
    return Status(Code::kInternal, "confirmation of no retraction");
  }
  found->second->exchange = EagerExchange::kNone;
  return {};
}

}  // namespace hvd::negotiation
