// SPDX-License-Identifier: Apache-2.0
// Coordinator: the search for the ranks that are missing for an operation that waits, and for what
// those ranks do instead. A missing rank may wait for another operation, may have given the name on
// another process set, or may answer nothing at all.
#include <algorithm>
#include <utility>

#include "negotiation/coordinator.h"

namespace hvd::negotiation {

namespace {

// A rank that answers at all does so at once, from the engine's own thread. This limit is shorter
// than the time that the inquirers give this coordinator.
constexpr Duration kPatience = std::chrono::milliseconds(400);
constexpr size_t kMostNamed = 16;  // ranks in one message: a line must stay readable

}  // namespace

void Coordinator::on_query(int member, ByteReader& in, Time now) {
  const auto found = by_name_.find(get_short_text(in));
  if (!in.ok() || found == by_name_.end()) return;
  Instance& instance = *found->second;
  if (!instance.pending || instance.arrived[static_cast<size_t>(member)] == 0)
    return;  // decided meanwhile, or to be sent again
  if (instance.complete) {
    answer(member, instance, {}, kNobodyMissing);
  } else {
    inquire(instance, member, now);
  }
}

void Coordinator::inquire(Instance& instance, int member, Time now) {
  if (instance.inquiry && !instance.inquiry->inquirers.empty()) {
    instance.inquiry->inquirers.push_back(member);
    return;
  }
  auto made = std::make_unique<Inquiry>();
  made->number = next_inquiry_++;
  made->until = now + kPatience;
  made->inquirers.push_back(member);
  made->said.resize(static_cast<size_t>(size()));
  for (int other = 0; other < size(); ++other) {
    const auto index = static_cast<size_t>(other);
    if (instance.arrived[index] == 0 && joined_[index] == 0) made->unheard.push_back(other);
  }
  const std::vector<int> asked = made->unheard;
  Bytes message;
  put_head(message, {MessageType::kWhere, settings_.set});
  ByteWriter(message).put(made->number);
  put_short_text(message, instance.name);
  drop_inquiry(instance);
  instance.inquiry = std::move(made);
  inquiring_.push_back(&instance);
  for (const int other : asked) out_.to_member(other, message, true);
}

void Coordinator::on_elsewhere(int member, ByteReader& in) {
  const auto number = in.get<uint32_t>();
  const auto found = by_name_.find(get_short_text(in));
  const std::string_view text = get_short_text(in);
  if (!in.ok() || found == by_name_.end()) return;
  Instance& instance = *found->second;
  if (!instance.inquiry || instance.inquiry->number != number) return;
  Inquiry& inquiry = *instance.inquiry;
  if (std::erase(inquiry.unheard, member) == 0) return;
  inquiry.said[static_cast<size_t>(member)] = text;
  if (inquiry.unheard.empty() && !inquiry.inquirers.empty()) conclude(instance);
}

void Coordinator::conclude(Instance& instance) {
  std::erase(inquiring_, &instance);
  const std::vector<int> inquirers = std::exchange(instance.inquiry->inquirers, {});
  const std::vector<int64_t> ranks = missing_ranks(instance);
  const std::string text = missing_text(instance);
  for (const int member : inquirers) answer(member, instance, ranks, text);
}

void Coordinator::answer(int member, const Instance& instance, const std::vector<int64_t>& ranks,
                         std::string_view text) {
  Bytes message;
  put_head(message, {MessageType::kMissing, settings_.set});
  put_short_text(message, instance.name);
  ByteWriter writer(message);
  put_numbers(writer, ranks);
  put_short_text(message, text);
  out_.to_member(member, message, true);
}

void Coordinator::drop_inquiry(Instance& instance) {
  if (!instance.inquiry) return;
  std::erase(inquiring_, &instance);
  instance.inquiry.reset();
}

Time Coordinator::tick(Time now) {
  const std::vector<Instance*> open = inquiring_;
  Time next = kNever;
  for (Instance* instance : open) {
    if (now >= instance->inquiry->until) {
      conclude(*instance);
    } else {
      next = std::min(next, instance->inquiry->until);
    }
  }
  return next;
}

std::vector<int64_t> Coordinator::missing_ranks(const Instance& instance) const {
  std::vector<int64_t> ranks;
  for (size_t member = 0; member < instance.arrived.size(); ++member) {
    if (instance.arrived[member] == 0 && joined_[member] == 0)
      ranks.push_back(settings_.ranks[member]);
  }
  return ranks;
}

std::string Coordinator::missing_text(const Instance& instance) const {
  std::string text = "missing ranks";
  for (const int64_t rank : missing_ranks(instance)) text += " " + std::to_string(rank);
  return text + " of " + std::to_string(size()) + whereabouts_text(instance);
}

// "; rank 1 waits in barrier "b", rank 3 does not answer" for those that are still missing.
std::string Coordinator::whereabouts_text(const Instance& instance) const {
  if (!instance.inquiry) return {};
  const Inquiry& inquiry = *instance.inquiry;
  std::string text;
  size_t named = 0;
  for (size_t member = 0; member < inquiry.said.size() && named < kMostNamed; ++member) {
    if (instance.arrived[member] != 0 || joined_[member] != 0) continue;
    const bool unheard =
        inquiry.inquirers.empty() &&
        std::count(inquiry.unheard.begin(), inquiry.unheard.end(), static_cast<int>(member)) > 0;
    const std::string_view said =
        unheard ? std::string_view("does not answer") : std::string_view(inquiry.said[member]);
    if (said.empty()) continue;
    text += (named++ == 0 ? "; rank " : ", rank ") + std::to_string(settings_.ranks[member]) + " ";
    text += said;
  }
  return text;
}

}  // namespace hvd::negotiation
