// SPDX-License-Identifier: Apache-2.0
#include "engine/open_sets.h"

#include <algorithm>

namespace hvd::engine {

uint32_t OpenSets::begin_opening() {
  opening_.insert(next_serial_);
  return next_serial_++;
}

bool OpenSets::keep_early(uint32_t serial, int from, std::span<const std::byte> message) {
  if (serial < next_serial_ && opening_.count(serial) == 0) return false;
  early_[serial].emplace_back(from, Bytes(message.begin(), message.end()));
  return true;
}

void OpenSets::forget(uint32_t serial) {
  opening_.erase(serial);
  early_.erase(serial);
}

OpenSets::Messages OpenSets::open(uint32_t serial, std::unique_ptr<SetEngine> set) {
  opening_.erase(serial);
  sets_[serial] = std::move(set);
  const auto early = early_.find(serial);
  if (early == early_.end()) return {};
  Messages messages = std::move(early->second);
  early_.erase(early);
  return messages;
}

void OpenSets::apply_ended() {
  std::vector<uint32_t> ended;
  ended.swap(ended_);
  for (const uint32_t serial : ended) {
    const auto found = sets_.find(serial);
    if (found == sets_.end()) continue;
    found->second->fail_all(Status(Code::kCancelled, "the process set was destroyed"), true);
    for (auto& one : found->second->leave()) leaving_.push_back(std::move(one));
    sets_.erase(found);
  }
  if (!ended.empty()) std::erase_if(leaving_, [](const auto& one) { return one->ended(); });
}

void OpenSets::fail_all(const Status& why, bool in_order) {
  if (!in_order) {
    for (const auto& [serial, set] : sets_) set->begin_end(false);
    for (const auto& one : leaving_) one->begin_end(false);
  }
  for (const auto& [serial, set] : sets_) set->fail_all(why, in_order);
}

void OpenSets::abandon() noexcept {
  ended_.clear();
  early_.clear();
  for (const auto& [serial, set] : sets_) set->abandon();
  for (const auto& one : leaving_) one->begin_end(false);
}

void OpenSets::close() {
  collect_metrics();
  for (const auto& [serial, set] : sets_) set->begin_end(true);
  sets_.clear();
  leaving_.clear();
}

void OpenSets::apply_options() {
  for (const auto& [serial, set] : sets_) set->apply_options();
}

void OpenSets::collect_metrics() const {
  for (const auto& [serial, set] : sets_) set->collect_metrics();
}

bool OpenSets::data_moving() const {
  return std::any_of(sets_.begin(), sets_.end(),
                     [](const auto& set) { return set.second->data_moving(); });
}

bool OpenSets::must_poll() const {
  return std::any_of(sets_.begin(), sets_.end(),
                     [](const auto& set) { return set.second->must_poll(); });
}

bool OpenSets::must_plan() const {
  return std::any_of(sets_.begin(), sets_.end(),
                     [](const auto& set) { return set.second->must_plan(); });
}

bool OpenSets::owes_answer() const {
  return std::any_of(sets_.begin(), sets_.end(),
                     [](const auto& set) { return set.second->owes_answer(); });
}

OpenSets::Wait OpenSets::wait_of(std::string_view key) const {
  Wait best;
  for (const auto& [serial, set] : sets_) {
    const Operation* other = set->wait_of(key);
    if (other == nullptr) continue;
    if (best.operation == nullptr || tells_more(*other, *best.operation, key))
      best = {set.get(), other};
  }
  return best;
}

std::string OpenSets::whereabouts(const SetEngine& asked, std::string_view key) const {
  const auto [set, operation] = wait_of(key);
  if (operation == nullptr) return {};
  const bool awaited = operation->awaited.load(std::memory_order_relaxed);
  std::string text = (awaited ? "waits in " : "has begun ") + operation->subject();
  if (set == &asked) return text;
  return text + " of process set " + std::to_string(set->set()->id.load());
}

WaitRecord OpenSets::record_of_wait() const {
  const auto [set, operation] = wait_of({});
  return operation == nullptr ? WaitRecord() : set->record_of_wait(*operation);
}

}  // namespace hvd::engine
