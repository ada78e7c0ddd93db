// SPDX-License-Identifier: Apache-2.0
#include "negotiation/coordinator.h"

#include <algorithm>

#include "base/quoted.h"

namespace hvd::negotiation {

namespace {

// Only such an operation can be eager or fused with others. Like a barrier, such an operation
// completes without members that have joined.
bool is_fusible(const Signature& signature) {
  if (!traits_of(signature.kind).fusible) return false;
  for (const TensorShape& tensor : signature.tensors) {
    if (tensor.dtype != signature.tensors[0].dtype) return false;
  }
  return !signature.tensors.empty();
}

}  // namespace

Coordinator::Coordinator(CoordinatorSettings settings, Out& out)
    : settings_(std::move(settings)), out_(out) {
  joined_.resize(static_cast<size_t>(size()));
  owed_.resize(joined_.size());
  join_held_.resize(joined_.size());
}

Status Coordinator::on_message(int member, MessageType type, ByteReader in, Time now) {
  switch (type) {
    case MessageType::kReady: return on_ready(member, in, now);
    case MessageType::kQuery: on_query(member, in, now); break;
    case MessageType::kWithdraw: on_withdraw(member, in); break;
    case MessageType::kElsewhere: on_elsewhere(member, in); break;
    case MessageType::kRetracted: return on_retracted(in);
    case MessageType::kBye: {
      const int rank = settings_.ranks[static_cast<size_t>(member)];
      close(Status(Code::kShutDown, settings_.describe(rank) + " shut down").with_rank(rank));
      break;
    }
    default: return Status(Code::kInternal, "coordinator received a message of a coordinator");
  }
  return in.ok() && in.at_end()
             ? Status()
             : Status(Code::kInternal, "coordinator received a message of another length");
}

Status Coordinator::on_ready(int member, ByteReader& in, Time now) {
  if (closed()) return {};  // the member learns it from the close message that is under way
  const auto count = in.get<uint32_t>();
  if (!in.ok()) return Status(Code::kInternal, "malformed ready message");
  ReadyEntry entry;
  for (uint32_t i = 0; i < count; ++i) {
    if (!get_ready(in, &entry)) return Status(Code::kInternal, "malformed ready message");
    HVD_TRY(arrive(member, entry, now));
  }
  return in.at_end() ? Status() : Status(Code::kInternal, "ready message has bytes behind its end");
}

Coordinator::Instance* Coordinator::find_or_create(std::string_view name) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) return found->second.get();
  forget_excess();
  auto made = std::make_unique<Instance>();
  Instance* instance = made.get();
  instance->name = name;
  lru_.push_front(instance);
  instance->place = lru_.begin();
  link(instance);
  by_name_.emplace(instance->name, std::move(made));
  return instance;
}

Status Coordinator::ask_again(int member, uint32_t id) {
  ++owed_[static_cast<size_t>(member)];
  message_.clear();
  put_head(message_, {MessageType::kResend, settings_.set});
  ByteWriter(message_).put(id);
  out_.to_member(member, message_, false);
  return {};
}

Status Coordinator::arrive(int member, const ReadyEntry& entry, Time now) {
  Instance* instance = nullptr;
  if (entry.id != 0) {
    const auto found = by_id_.find(entry.id);
    if (found == by_id_.end()) return ask_again(member, entry.id);
    instance = found->second;
  } else {
    instance = find_or_create(entry.name);
  }
  const auto index = static_cast<size_t>(member);
  if (instance->exchange != EagerExchange::kNone && member != 0 &&
      answers_eager_exchange(*instance, entry))
    return {};
  if (!instance->expired.empty() && instance->expired[index] != 0) {
    --instance->expired[index];
    message_.clear();
    put_head(message_, {MessageType::kFail, settings_.set});
    put_plan_entry(message_, {0, instance->name, {}, {}, {}});
    put_status(message_, instance->expired_with);
    out_.to_member(member, message_, false);
    return {};
  }
  if (!instance->pending) HVD_TRY(begin_use(*instance, entry, now));
  HVD_TRY(record(*instance, member, entry, now));
  if ((instance->decoded.kind == OpKind::kJoin) != (instance->name == kJoinKey)) {
    return Status(Code::kInternal, "join under the name " + in_quotes(name_of(instance->name)));
  }
  if (entry.resent && owed_[index] > 0) --owed_[index];
  if (instance->decoded.kind == OpKind::kJoin) {
    // Operations that this member sent before its join count before the join, also if one has to be
    // sent twice.
    join_held_[index] = 1;
  } else {
    take_payload(*instance, member, entry);
    if (instance->sibling == instance || !examine_siblings(*instance)) examine(*instance);
  }
  if (join_held_[index] != 0 && owed_[index] == 0) {
    join_held_[index] = 0;
    on_join(*find_or_create(kJoinKey), member);
  }
  return {};
}

Status Coordinator::begin_use(Instance& instance, const ReadyEntry& entry, Time now) {
  const auto members = static_cast<size_t>(size());
  if (entry.id != 0) {
    if (instance.current_print != instance.print) {
      instance.current_signature = instance.signature;
      if (!decode(as_byte_span(instance.signature), &instance.decoded)) {
        return Status(Code::kInternal, "cached signature does not decode");
      }
    }
    instance.current_print = instance.print;
  } else {
    instance.current_signature = as_text(entry.signature);
    instance.current_print = entry.print;
    if (!decode(entry.signature, &instance.decoded)) {
      return Status(Code::kInternal, "malformed signature of " + in_quotes(name_of(instance.name)));
    }
  }
  instance.use = ++uses_;
  instance.pending = true;
  instance.complete = false;
  instance.any_full = false;
  instance.arrived_count = 0;
  instance.payload_count = 0;
  instance.priority = entry.priority;
  instance.since = now;
  if (settings_.arrivals) settings_.arrivals->begin(instance.use, now);
  instance.arrived.assign(members, 0);
  instance.exclusive.assign(members, 0);
  instance.odd.clear();
  instance.variable.resize(members);
  instance.payload.resize(members);
  ++pending_;
  lru_.splice(lru_.begin(), lru_, instance.place);
  return {};
}

// The sizes that travel beside the signature must fit the signature: the coordinator uses them for
// reading memory later.
Status Coordinator::check_sizes(const Instance& instance, const ReadyEntry& entry) const {
  const OpTraits& traits = traits_of(instance.decoded.kind);
  const size_t per_tensor = traits.ragged ? instance.decoded.tensors.size() : 0;
  const size_t numbers = traits.takes_splits ? static_cast<size_t>(size()) : per_tensor;
  const bool negative =
      std::any_of(entry.variable.begin(), entry.variable.end(), [](int64_t v) { return v < 0; });
  const bool eager_fits =
      !entry.eager ||
      (is_fusible(instance.decoded) && entry.payload.size() == signature_bytes(instance.decoded));
  if (entry.variable.size() == numbers && !negative && eager_fits) return {};
  return Status(Code::kInternal,
                "sizes of " + in_quotes(name_of(instance.name)) + " do not fit its signature");
}

Status Coordinator::record(Instance& instance, int member, const ReadyEntry& entry, Time now) {
  const auto index = static_cast<size_t>(member);
  if (instance.arrived[index] != 0 || instance.complete) {
    return Status(Code::kInternal, settings_.describe(settings_.ranks[index]) + " announced " +
                                       in_quotes(name_of(instance.name)) + " twice");
  }
  instance.arrived[index] = 1;
  instance.exclusive[index] = entry.exclusive ? 1 : 0;
  ++instance.arrived_count;
  instance.latest = member;
  instance.latest_at = now;
  if (settings_.arrivals) settings_.arrivals->arrive(instance.use, index, now - instance.since);
  instance.any_full = instance.any_full || entry.id == 0;
  instance.priority = std::max(instance.priority, entry.priority);
  if (entry.print == instance.current_print) {
    HVD_TRY(check_sizes(instance, entry));
  } else {
    instance.odd.emplace_back(
        member, entry.id != 0 ? instance.signature : std::string(as_text(entry.signature)));
  }
  instance.variable[index] = entry.variable;
  instance.payload_count += entry.eager ? 1 : 0;
  return {};
}

// The payload of the last member to come is reduced with the others at once; the payloads of
// members before it are kept.
void Coordinator::take_payload(Instance& instance, int member, const ReadyEntry& entry) {
  const bool last = everyone_here(instance);
  instance.last_member = last ? member : -1;
  instance.last = last ? entry.payload : std::span<const std::byte>();
  if (last) return;
  if (settings_.eager_exchange && member == 0 && may_exchange_eagerly(instance, entry))
    begin_eager_exchange(instance, entry.payload);
  instance.payload[static_cast<size_t>(member)].assign(entry.payload.begin(), entry.payload.end());
}

bool Coordinator::everyone_here(const Instance& instance) const {
  if (instance.arrived_count == size()) return true;
  if (joined_count_ == 0) return false;
  for (size_t member = 0; member < joined_.size(); ++member) {
    if (instance.arrived[member] == 0 && joined_[member] == 0) return false;
  }
  return true;
}

// True if a member that this use still needs has joined and the operation cannot do without it.
bool Coordinator::blocked_by_join(const Instance& instance, int* member) const {
  const bool needs_all = !is_fusible(instance.decoded) && instance.decoded.kind != OpKind::kBarrier;
  if (joined_count_ == 0 || !needs_all) return false;
  for (size_t m = 0; m < joined_.size(); ++m) {
    if (joined_[m] == 0 || instance.arrived[m] != 0) continue;
    *member = static_cast<int>(m);
    return true;
  }
  return false;
}

// Moves a use forward if all members are here, or fails it if it cannot complete any more.
void Coordinator::examine(Instance& instance) {
  if (!instance.pending || instance.complete) return;
  if (int member = -1; blocked_by_join(instance, &member)) {
    const int rank = settings_.ranks[static_cast<size_t>(member)];
    fail(instance, Status(Code::kMismatch, subject(instance) + ": not possible after rank " +
                                               std::to_string(rank) + " has joined")
                       .with_rank(rank));
    return;
  }
  if (!everyone_here(instance)) return;
  if (!instance.odd.empty()) {
    fail_mismatch(instance);
  } else if (instance.payload_count > 0 && instance.payload_count == instance.arrived_count) {
    finish_eager(instance);
  } else {
    make_ready(instance);
  }
}

void Coordinator::on_join(Instance& instance, int member) {
  joined_[static_cast<size_t>(member)] = 1;
  last_joined_ = member;
  ++joined_count_;
  // An operation that waited for this member only goes on without it, before the join of all can
  // end.
  std::vector<Instance*> waiting;
  for (Instance* other : lru_) {
    if (other != &instance && other->pending && !other->complete) waiting.push_back(other);
  }
  for (Instance* other : waiting) examine(*other);
  if (joined_count_ < size()) return;
  instance.priority = INT32_MIN;  // behind every reduction that still counts on the joined members
  instance.variable[0] = {settings_.ranks[static_cast<size_t>(last_joined_)]};
  for (size_t i = 1; i < instance.variable.size(); ++i) instance.variable[i].clear();
  make_ready(instance);
  std::fill(joined_.begin(), joined_.end(), uint8_t{0});
  joined_count_ = 0;
}

void Coordinator::make_ready(Instance& instance) {
  instance.complete = true;
  if (ready_.empty()) ready_since_ = instance.since;
  const bool fusible = is_fusible(instance.decoded);
  const uint64_t bytes = fusible ? signature_bytes(instance.decoded) : 0;
  ready_bytes_ += bytes;
  const bool without_some = instance.arrived_count < size();
  ready_.push_back({&instance, bytes, ready_.size(), fusible, fusible && without_some,
                    !fusible && without_some});
}

std::string Coordinator::subject(const Instance& instance) const {
  return std::string(op_kind_name(instance.decoded.kind)) + " " + in_quotes(name_of(instance.name));
}

void Coordinator::end_use(Instance& instance) {
  instance.pending = false;
  instance.complete = false;
  instance.last_member = -1;
  drop_inquiry(instance);
  for (Bytes& kept : instance.payload) drop_large(kept);
  --pending_;
  if (instance.exchange == EagerExchange::kBegun) retract(instance);
}

// Members that have arrived are told now; each other member is told when it arrives, so that no
// rank waits for an operation that the others have given up.
void Coordinator::fail(Instance& instance, const Status& why, std::span<const int> excused) {
  Bytes message;
  put_head(message, {MessageType::kFail, settings_.set});
  put_plan_entry(message, {0, instance.name, {}, {}, {}});
  put_status(message, why);
  std::vector<int> told;
  instance.expired.resize(static_cast<size_t>(size()));
  for (int member = 0; member < size(); ++member) {
    const auto index = static_cast<size_t>(member);
    if (instance.arrived[index] != 0) {
      told.push_back(member);
    } else if (joined_[index] == 0 &&
               std::find(excused.begin(), excused.end(), member) == excused.end()) {
      ++instance.expired[index];
    }
  }
  instance.expired_with = why;
  end_use(instance);
  for (const int member : told) out_.to_member(member, message, false);
}

void Coordinator::fail_mismatch(Instance& instance) {
  ++counters_.mismatches;
  std::vector<Signature> said(static_cast<size_t>(size()), instance.decoded);
  for (const auto& [member, bytes] : instance.odd)
    decode(as_byte_span(bytes), &said[static_cast<size_t>(member)]);
  std::vector<int> who;
  std::vector<Signature> arrived;
  for (size_t member = 0; member < said.size(); ++member) {
    if (instance.arrived[member] == 0) continue;
    who.push_back(settings_.ranks[member]);
    arrived.push_back(std::move(said[member]));
  }
  fail(instance,
       Status(Code::kMismatch, subject(instance) + ": " + explain_difference(arrived, who)));
}

void Coordinator::close(const Status& why) {
  if (closed()) return;
  closed_ = why;
  ready_.clear();  // the member that left will not run them
  // The members end their operations when they learn that the set has closed.
  for (Instance* instance : lru_) {
    instance->exchange = EagerExchange::kNone;
    if (instance->pending) end_use(*instance);
  }
  message_.clear();
  put_head(message_, {MessageType::kClose, settings_.set});
  put_status(message_, why);
  send_to_all(message_, true);
}

// Cached names beyond the capacity are dropped, least recently used first. A member that still uses
// the id is asked to send the operation in full.
void Coordinator::forget_excess() {
  auto at = lru_.end();
  while (lru_.size() > settings_.cache_capacity + pending_ && at != lru_.begin()) {
    Instance* instance = *--at;
    const bool owes = std::any_of(instance->expired.begin(), instance->expired.end(),
                                  [](uint32_t uses) { return uses != 0; });
    if (instance->pending || owes || instance->exchange != EagerExchange::kNone) continue;
    if (instance->id != 0) {
      by_id_.erase(instance->id);
      ++counters_.evictions;
    }
    unlink(instance);
    at = lru_.erase(at);
    by_name_.erase(by_name_.find(instance->name));
  }
}

void Coordinator::send_to_all(const Bytes& message, bool urgent) {
  for (int member = 0; member < size(); ++member) out_.to_member(member, message, urgent);
}

}  // namespace hvd::negotiation
