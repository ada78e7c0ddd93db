// SPDX-License-Identifier: Apache-2.0
// The process sets of a context by id, as callers see them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "engine/process_set.h"

namespace hvd::engine {

class SetDirectory {
 public:
  // An id for a new set. All ranks take and give back ids in the same order, so they choose the
  // same.
  int32_t take_id();
  void add(const std::shared_ptr<ProcessSet>& set);
  // Ids below `id` belong to sets of earlier epochs of an elastic job and are not taken any more.
  void skip_to(int32_t id);
  // Takes the id of a set that was never added away from it.
  void give_id_back(ProcessSet& set);
  // The removed set, whose id is free again; nullptr if there is none.
  std::shared_ptr<ProcessSet> remove(int32_t id);

  std::shared_ptr<ProcessSet> find(int32_t id) const;
  // The id of the set that has these ranks; -1 if there is none.
  int32_t id_of(const std::vector<int>& ranks) const;
  std::vector<int> ids() const;
  // Whether a set of an earlier epoch had this id, and there is none now.
  bool is_gone(int32_t id) const;

 private:
  mutable Mutex mutex_;
  std::map<int32_t, std::shared_ptr<ProcessSet>> sets_ HVD_GUARDED_BY(mutex_);
  std::deque<int32_t> free_ids_ HVD_GUARDED_BY(mutex_);
  int32_t next_id_ HVD_GUARDED_BY(mutex_) = 1;
  int32_t skipped_to_ HVD_GUARDED_BY(mutex_) = 1;
};

}  // namespace hvd::engine
