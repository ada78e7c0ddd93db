// SPDX-License-Identifier: Apache-2.0
// A store inside one process, for ranks that are threads. Every method may be called from any
// thread.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>

#include "base/mutex.h"
#include "rendezvous/store.h"

namespace hvd::rendezvous {

class MemoryStore final : public Store {
 public:
  // The store of that name, shared by all who hold it at the same time; the last one to let go ends
  // it. The map behind this is the one piece of process-wide state of the library: threads that
  // only share a name have no other way to meet.
  static std::shared_ptr<MemoryStore> named(const std::string& name);

  Status set(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, Time deadline) override;
  Result<int64_t> add(const std::string& key, int64_t delta) override;
  Status remove(const std::string& key) override;

 private:
  Mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> entries_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvd::rendezvous
