// SPDX-License-Identifier: Apache-2.0
// Coordinator: from operations that are ready everywhere to the plan that all members follow: when
// the plan is sent, in which order operations run, which operations are fused, and which cache ids
// the names get. And the result of an eager operation, whose payloads came with the announcements.
#include <algorithm>

#include "negotiation/coordinator.h"

namespace hvd::negotiation {

uint32_t Coordinator::agree(Instance& instance) {
  if (settings_.cache_capacity == 0 || instance.decoded.kind >= OpKind::kJoin) return 0;
  if (instance.id == 0 || instance.print != instance.current_print) {
    if (instance.id != 0) by_id_.erase(instance.id);
    instance.id = next_id_++;
    by_id_[instance.id] = &instance;
    instance.print = instance.current_print;
    instance.signature = instance.current_signature;
    instance.any_full = true;
  }
  return instance.id;
}

PlanEntry Coordinator::plan_entry(Instance& instance) {
  PlanEntry entry;
  entry.id = agree(instance);
  entry.agreement = {instance.use, Arrivals::microseconds(instance.latest_at - instance.since),
                     static_cast<uint32_t>(instance.latest)};
  if (instance.any_full || entry.id == 0) entry.name = instance.name;
  for (const std::vector<int64_t>& part : instance.variable) {
    entry.variable.insert(entry.variable.end(), part.begin(), part.end());
  }
  return entry;
}

Time Coordinator::held_until() const {
  if (ready_.empty() || settings_.cycle_time <= Duration::zero()) return kNever;
  if (ready_bytes_ >= static_cast<uint64_t>(settings_.fusion_threshold)) return kNever;
  return ready_since_ + settings_.cycle_time;
}

bool Coordinator::can_fuse(const ReadyUse& a, const ReadyUse& b) {
  const Signature& x = a.instance->decoded;
  const Signature& y = b.instance->decoded;
  return a.fusible && b.fusible && x.place == y.place && x.tensors[0].dtype == y.tensors[0].dtype &&
         x.op == y.op && x.prescale == y.prescale && x.postscale == y.postscale;
}

void Coordinator::issue(Time now) {
  if (ready_.empty()) return;
  if (const Time until = held_until(); until != kNever && now < until) return;
  std::sort(ready_.begin(), ready_.end(), [](const ReadyUse& a, const ReadyUse& b) {
    if (a.instance->priority != b.instance->priority)
      return a.instance->priority > b.instance->priority;
    return a.place < b.place;
  });
  scratch_.outline_needed =
      std::any_of(ready_.begin(), ready_.end(), [](const ReadyUse& use) { return use.outline; });
  scratch_.plan.clear();
  put_head(scratch_.plan, {MessageType::kPlan, settings_.set});
  const size_t count_at = scratch_.plan.size();
  ByteWriter(scratch_.plan).put(uint32_t{0});
  uint32_t groups = 0;
  for (size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i].taken) continue;
    take_group(i);
    ++groups;
  }
  ByteWriter(scratch_.plan).patch(count_at, groups);
  ready_.clear();
  ready_bytes_ = 0;
  ready_since_ = kNever;
  forget_excess();
  send_to_all(scratch_.plan, false);
}

// Writes the ready use at `first`, and all later ones that fuse with it, into the plan.
void Coordinator::take_group(size_t first) {
  const ReadyUse& head = ready_[first];
  scratch_.group.entries.clear();
  scratch_.group.has_outline = false;
  scratch_.group.without_joined = false;
  const bool on_device = head.instance->decoded.place == Place::kCuda;  // as all that fuses with it
  uint64_t bytes = head.bytes;
  add_to_group(ready_[first], scratch_.group);
  for (size_t i = first + 1; head.fusible && i < ready_.size(); ++i) {
    ReadyUse& use = ready_[i];
    if (use.taken) continue;
    if (can_fuse(head, use) &&
        bytes + use.bytes <= static_cast<uint64_t>(settings_.fusion_threshold)) {
      bytes += use.bytes;
      add_to_group(use, scratch_.group);
    } else if (!settings_.look_ahead) {
      break;
    }
  }
  if (scratch_.group.entries.size() > 1) {
    ++counters_.fused_operations;
    counters_.fused_tensors += scratch_.group.entries.size();
  }
  scratch_.group.path = on_device ? next_path() : Path::kHost;
  put_group(scratch_.plan, scratch_.group);
}

// A member that has joined lends its host memory only.
Path Coordinator::next_path() {
  if (scratch_.group.has_outline) return Path::kHost;
  const Path path = device_path_;
  if (path == Path::kMeet) device_path_ = Path::kHost;
  return path;
}

void Coordinator::add_to_group(ReadyUse& use, PlanGroup& group) {
  use.taken = true;
  group.entries.push_back(plan_entry(*use.instance));
  group.has_outline = group.has_outline || use.outline;
  group.without_joined = use.without_joined;
  if (use.fusible && scratch_.outline_needed) fill_outline(use.instance->decoded, group);
  end_use(*use.instance);
}

void Coordinator::fill_outline(const Signature& signature, PlanGroup& group) {
  group.outline = {signature.tensors[0].dtype, signature.op, signature.prescale,
                   signature.postscale};
  for (const TensorShape& tensor : signature.tensors) {
    group.entries.back().counts.push_back(element_count(tensor.dims));
  }
}

void Coordinator::finish_eager(Instance& instance) {
  scratch_.sources.assign(instance.payload.size(), nullptr);
  for (size_t member = 0; member < scratch_.sources.size(); ++member) {
    const bool last = static_cast<int>(member) == instance.last_member;
    if (instance.arrived[member] != 0)
      scratch_.sources[member] = last ? instance.last.data() : instance.payload[member].data();
  }
  message_.clear();
  put_head(message_, {MessageType::kResult, settings_.set});
  put_plan_entry(message_, plan_entry(instance));
  scratch_.result.resize(signature_bytes(instance.decoded));
  settings_.reduce(instance.decoded, settings_.hosts, scratch_.sources, scratch_.result);
  const auto behind = put_payload(message_, scratch_.result);
  const bool exchanged =
      instance.exchange == EagerExchange::kBegun && instance.arrived_count == size();
  if (exchanged) instance.exchange = EagerExchange::kNone;
  end_use(instance);
  // This rank's own member comes last: on completion that member may reach into this object again.
  for (int member = exchanged ? 0 : size() - 1; member >= 0; --member) {
    if (instance.arrived[static_cast<size_t>(member)] != 0)
      out_.to_member(member, message_, false, behind);
  }
}

}  // namespace hvd::negotiation
