// SPDX-License-Identifier: Apache-2.0
#include "engine/set_directory.h"

#include <algorithm>

namespace hvd::engine {

int32_t SetDirectory::take_id() {
  MutexLock lock(mutex_);
  if (free_ids_.empty()) return next_id_++;
  const int32_t id = free_ids_.front();
  free_ids_.pop_front();
  return id;
}

void SetDirectory::add(const std::shared_ptr<ProcessSet>& set) {
  MutexLock lock(mutex_);
  sets_[set->id.load()] = set;
}

void SetDirectory::skip_to(int32_t id) {
  MutexLock lock(mutex_);
  next_id_ = skipped_to_ = std::max(next_id_, id);
}

void SetDirectory::give_id_back(ProcessSet& set) {
  MutexLock lock(mutex_);
  free_ids_.push_back(set.id.exchange(-1));
}

std::shared_ptr<ProcessSet> SetDirectory::remove(int32_t id) {
  MutexLock lock(mutex_);
  const auto found = sets_.find(id);
  if (found == sets_.end()) return nullptr;
  std::shared_ptr<ProcessSet> set = std::move(found->second);
  sets_.erase(found);
  free_ids_.push_back(set->id.exchange(-1));
  return set;
}

std::shared_ptr<ProcessSet> SetDirectory::find(int32_t id) const {
  MutexLock lock(mutex_);
  const auto found = sets_.find(id);
  return found == sets_.end() ? nullptr : found->second;
}

int32_t SetDirectory::id_of(const std::vector<int>& ranks) const {
  MutexLock lock(mutex_);
  for (const auto& [id, set] : sets_) {
    if (set->ranks == ranks) return id;
  }
  return -1;
}

bool SetDirectory::is_gone(int32_t id) const {
  MutexLock lock(mutex_);
  return id > 0 && id < skipped_to_ && sets_.count(id) == 0;
}

std::vector<int> SetDirectory::ids() const {
  MutexLock lock(mutex_);
  std::vector<int> ids;
  for (const auto& [id, set] : sets_) ids.push_back(id);
  return ids;
}

}  // namespace hvd::engine
