// SPDX-License-Identifier: Apache-2.0
#include "negotiation/member.h"

#include <utility>

namespace hvd::negotiation {

namespace {
constexpr size_t kCountAt = kHeadBytes;  // the entry count stands right behind the head
}

void Member::submit(const Submission& submission) {
  auto found = by_name_.find(submission.name);
  if (found == by_name_.end()) {
    forget_excess();
    auto made = std::make_unique<Name>();
    made->text = submission.name;
    const std::string_view key = made->text;
    found = by_name_.emplace(key, std::move(made)).first;
  }
  Name& name = *found->second;
  name.pending = true;
  name.submission = submission;
  actions_.mark(submission.token, name.mark);
  ++pending_;
  const bool hit = name.id != 0 && name.print == submission.print;
  ++(hit ? hits_ : misses_);
  announce(name, !hit);
  if (!name.has_payload) return;
  name.has_payload = false;
  // the payload in the batch belongs to the operation, which ends now
  if (!batch_payload_.empty()) flush();
  take(name, name.payload, name.payload_use);
  drop_large(name.payload);
}

// Entries that come behind the last entry's payload need that payload in its place.
void Member::append_payload() { ByteWriter(batch_).put_bytes(std::exchange(batch_payload_, {})); }

void Member::announce(Name& name, bool in_full, bool resent) {
  name.in_full = in_full;
  if (batch_count_ == 0) {
    batch_.clear();
    put_head(batch_, {MessageType::kReady, set_});
    ByteWriter(batch_).put(uint32_t{0});
  }
  append_payload();
  ++batch_count_;
  const Submission& submission = name.submission;
  ReadyEntry entry;
  entry.id = in_full ? 0 : name.id;
  entry.priority = submission.priority;
  entry.print = submission.print;
  if (in_full) {
    entry.name = name.text;
    entry.signature = submission.signature;
  }
  entry.variable.assign(submission.variable.begin(), submission.variable.end());
  entry.resent = resent;
  entry.eager = submission.eager;
  entry.exclusive = submission.exclusive;
  entry.payload = submission.payload;
  put_ready(batch_, entry);
  batch_payload_ = put_payload(batch_, entry.payload);
}

void Member::flush() {
  if (batch_count_ == 0) return;
  ByteWriter(batch_).patch(kCountAt, batch_count_);
  batch_count_ = 0;
  // The batch is moved out first: if the coordinator is this rank itself, its answer may submit
  // again.
  Bytes message;
  message.swap(batch_);
  actions_.to_coordinator(message, false, std::exchange(batch_payload_, {}));
  if (batch_count_ == 0 && batch_.empty()) batch_.swap(message);  // keep the memory
}

void Member::query(std::string_view name) {
  scratch_.clear();
  put_head(scratch_, {MessageType::kQuery, set_});
  put_short_text(scratch_, name);
  actions_.to_coordinator(scratch_, true);
}

void Member::withdraw(std::string_view name, Duration waited) {
  scratch_.clear();
  put_head(scratch_, {MessageType::kWithdraw, set_});
  ByteWriter(scratch_).put(static_cast<int64_t>(waited.count()));
  put_short_text(scratch_, name);
  actions_.to_coordinator(scratch_, true);
}

void Member::bye() {
  scratch_.clear();
  put_head(scratch_, {MessageType::kBye, set_});
  actions_.to_coordinator(scratch_, true);
}

Status Member::on_message(MessageType type, ByteReader in) {
  switch (type) {
    case MessageType::kPlan: return on_plan(in);
    case MessageType::kResult: return on_result(in);
    case MessageType::kFail: return on_fail(in);
    case MessageType::kEagerPayload: return on_eager_payload(in);
    case MessageType::kRetract: return on_retract(in);
    case MessageType::kWhere: return on_where(in);
    case MessageType::kResend: {
      const auto found = by_id_.find(in.get<uint32_t>());
      if (!in.ok() || !in.at_end())
        return Status(Code::kInternal, "malformed request to send again");
      if (found == by_id_.end() || !found->second->pending)
        return Status(Code::kInternal, "resend of nothing");
      announce(*found->second, true, true);
      flush();
      return {};
    }
    case MessageType::kMissing: {
      const auto found = by_name_.find(get_short_text(in));
      std::vector<int64_t> ranks;
      const bool readable = get_numbers(in, &ranks);
      const std::string_view text = get_short_text(in);
      if (!readable || !in.ok() || !in.at_end())
        return Status(Code::kInternal, "malformed answer who is missing");
      if (found != by_name_.end() && found->second->pending) {
        actions_.missing(found->second->submission.token, ranks, text);
      }
      return {};
    }
    case MessageType::kClose: {
      Status why;
      if (!get_status(in, &why) || !in.at_end())
        return Status(Code::kInternal, "malformed close message");
      actions_.close(why);  // ends them all
      for (const auto& [text, name] : by_name_) end(name.get());
      return {};
    }
    default: return Status(Code::kInternal, "member received a message for a coordinator");
  }
}

Member::Name* Member::find(const PlanEntry& entry) {
  if (entry.name.empty()) {
    const auto found = by_id_.find(entry.id);
    return found == by_id_.end() ? nullptr : found->second;
  }
  const auto found = by_name_.find(entry.name);
  return found == by_name_.end() ? nullptr : found->second.get();
}

void Member::learn(const PlanEntry& entry, Name* name) {
  if (entry.id == 0 || cache_capacity_ == 0 || name->id == entry.id) return;
  if (name->id != 0) by_id_.erase(name->id);
  name->id = entry.id;
  name->print = name->submission.print;
  by_id_[entry.id] = name;
}

void* Member::end(Name* name) {
  if (name == nullptr || !name->pending) return nullptr;
  name->pending = false;
  --pending_;
  return name->submission.token;
}

Status Member::on_plan(ByteReader& in) {
  const auto groups = in.get<uint32_t>();
  if (!in.ok()) return Status(Code::kInternal, "malformed plan");
  for (uint32_t i = 0; i < groups; ++i) {
    PlanGroup& group = group_;
    if (!get_group(in, &group)) return Status(Code::kInternal, "malformed plan");
    tokens_.clear();
    for (const PlanEntry& entry : group.entries) {
      Name* name = find(entry);
      if (name != nullptr && name->pending) learn(entry, name);
      tokens_.push_back(end(name));
      if (tokens_.back() == nullptr && !group.has_outline && !group.without_joined) {
        return Status(Code::kInternal, "plan names an operation that is not waiting here");
      }
    }
    if (group.without_joined && tokens_[0] == nullptr) continue;
    actions_.run(group, tokens_);
  }
  return in.at_end() ? Status() : Status(Code::kInternal, "plan has bytes behind its end");
}

Status Member::on_result(ByteReader& in) {
  PlanEntry entry;
  if (!get_plan_entry(in, &entry)) return Status(Code::kInternal, "malformed result");
  Name* name = find(entry);
  if (name == nullptr || !name->pending) return Status(Code::kInternal, "result of nothing");
  learn(entry, name);
  actions_.finish(end(name), in.take(in.left()), entry.agreement);
  return {};
}

Status Member::on_fail(ByteReader& in) {
  PlanEntry entry;
  Status why;
  if (!get_plan_entry(in, &entry) || !get_status(in, &why) || !in.at_end()) {
    return Status(Code::kInternal, "malformed fail message");
  }
  Name* name = find(entry);
  if (name != nullptr && name->pending) actions_.fail(end(name), why);
  return {};
}

// The coordinator knows from the announcement alone whether this member uses the payload: by cache
// id and eager. So the payload must be used then, and only then.
void Member::take(Name& name, std::span<const std::byte> payload, uint64_t use) {
  if (!name.in_full && name.submission.eager) actions_.finish_with(end(&name), payload, use);
}

Status Member::on_eager_payload(ByteReader& in) {
  const auto found = by_id_.find(in.get<uint32_t>());
  const auto use = in.get<uint64_t>();
  const auto payload = in.take(in.left());
  if (!in.ok()) return Status(Code::kInternal, "malformed offer");
  if (found == by_id_.end()) return {};  // forgotten here: the operation will come in full
  Name& name = *found->second;
  if (name.pending) {
    take(name, payload, use);
    return {};
  }
  name.has_payload = true;
  name.payload.assign(payload.begin(), payload.end());
  name.payload_use = use;
  return {};
}

Status Member::on_retract(ByteReader& in) {
  const std::string_view text = get_short_text(in);
  if (!in.ok() || !in.at_end()) return Status(Code::kInternal, "malformed retraction of an offer");
  if (const auto found = by_name_.find(text); found != by_name_.end()) {
    found->second->has_payload = false;
    drop_large(found->second->payload);
  }
  scratch_.clear();
  put_head(scratch_, {MessageType::kRetracted, set_});
  put_short_text(scratch_, text);
  actions_.to_coordinator(scratch_, false);
  return {};
}

Status Member::on_where(ByteReader& in) {
  const auto inquiry = in.get<uint32_t>();
  const std::string_view name = get_short_text(in);
  if (!in.ok() || !in.at_end())
    return Status(Code::kInternal, "malformed question where a rank is");
  const auto found = by_name_.find(name);
  const bool here = found != by_name_.end() && found->second->pending;
  Bytes message;
  put_head(message, {MessageType::kElsewhere, set_});
  ByteWriter(message).put(inquiry);
  put_short_text(message, name);
  put_short_text(message, here ? std::string() : actions_.whereabouts(name));
  actions_.to_coordinator(message, true);
  return {};
}

// Names beyond twice the capacity are dropped all at once, which costs less than keeping an order
// of use here; the coordinator's cache is the one that evicts by age.
void Member::forget_excess() {
  if (by_name_.size() < 2 * cache_capacity_ + 2 * pending_ + 64) return;
  for (auto at = by_name_.begin(); at != by_name_.end();) {
    if (at->second->pending) {
      ++at;
      continue;
    }
    if (at->second->id != 0) by_id_.erase(at->second->id);
    at = by_name_.erase(at);
  }
}

}  // namespace hvd::negotiation
