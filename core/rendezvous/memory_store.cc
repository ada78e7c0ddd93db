// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/memory_store.h"

#include "rendezvous/entry.h"

namespace hvd::rendezvous {

std::shared_ptr<MemoryStore> MemoryStore::named(const std::string& name) {
  struct Registry {
    Mutex mutex;
    std::map<std::string, std::weak_ptr<MemoryStore>> stores HVD_GUARDED_BY(mutex);
  };
  // Never destroyed, so that contexts of late exit handlers and detached threads still find it.
  static Registry* const registry = new Registry;

  MutexLock lock(registry->mutex);
  std::erase_if(registry->stores, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<MemoryStore>& entry = registry->stores[name];
  std::shared_ptr<MemoryStore> store = entry.lock();
  if (!store) entry = store = std::make_shared<MemoryStore>();
  return store;
}

Status MemoryStore::set(const std::string& key, const std::string& value) {
  HVD_TRY(check_entry(key, value));
  MutexLock lock(mutex_);
  entries_[key] = value;
  changed_.notify_all();
  return {};
}

Result<std::string> MemoryStore::get(const std::string& key, Time deadline) {
  HVD_TRY(check_key(key));
  const Time start = now();
  MutexLock lock(mutex_);
  const auto present = [&]() HVD_REQUIRES(mutex_) { return entries_.contains(key); };
  // wait_until with the largest time overflows inside some standard libraries.
  if (deadline == kNever) {
    changed_.wait(lock.native(), present);
  } else if (!changed_.wait_until(lock.native(), deadline, present)) {
    return did_not_appear(key, now() - start);
  }
  return entries_[key];
}

Result<int64_t> MemoryStore::add(const std::string& key, int64_t delta) {
  HVD_TRY(check_key(key));
  MutexLock lock(mutex_);
  const auto found = entries_.find(key);
  const auto sum = counter_sum(
      key, found == entries_.end() ? std::nullopt : std::optional(found->second), delta);
  if (!sum.ok()) return sum;
  entries_[key] = std::to_string(sum.value());
  changed_.notify_all();
  return sum;
}

Status MemoryStore::remove(const std::string& key) {
  HVD_TRY(check_key(key));
  MutexLock lock(mutex_);
  entries_.erase(key);
  return {};
}

}  // namespace hvd::rendezvous
