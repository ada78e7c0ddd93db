// SPDX-License-Identifier: Apache-2.0
#include "transport/thread_shared_memory.h"

#include <utility>

namespace hvd::transport {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, std::weak_ptr<ThreadSharedMemory>> entries HVD_GUARDED_BY(mutex);
};

// Never destroyed: a rank may live on in a thread that outlasts static destructors.
Registry& registry() {
  static Registry* const only = new Registry;
  return *only;
}

}  // namespace

Result<std::shared_ptr<ThreadSharedMemory>> ThreadSharedMemory::create(int members) {
  auto shared = std::make_shared<ThreadSharedMemory>(members);
  Result<Mapping> memory = Mapping::anonymous(Board::bytes_for(members));
  if (!memory.ok()) return memory.status();
  shared->memory_ = std::move(memory).value();
  shared->board_ = Board::create(shared->memory_.bytes(), members);
  for (int member = 0; member < members; ++member) {
    Result<Fd> bell = new_bell();
    if (!bell.ok()) return bell.status();
    shared->bells_.push_back(std::move(bell).value());
  }
  return shared;
}

Result<Window> ThreadSharedMemory::open_window(int id, size_t bytes, int members, int /*me*/) {
  MutexLock lock(mutex_);
  Pages& pages = windows_[id];
  if (pages.mapping == nullptr) {
    Result<Mapping> fresh = Mapping::anonymous(whole_pages(bytes));
    if (!fresh.ok()) {
      windows_.erase(id);
      return fresh.status();
    }
    pages.mapping = std::make_shared<Mapping>(std::move(fresh).value());
    pages.members = members;
  }
  if (pages.mapping->bytes().size() != whole_pages(bytes) || pages.members != members) {
    return Status(Code::kInternal, "lane " + std::to_string(id) + ": opened with " +
                                       std::to_string(bytes) + " bytes for " +
                                       std::to_string(members) + " ranks, by another rank with " +
                                       std::to_string(pages.mapping->bytes().size()) + " for " +
                                       std::to_string(pages.members));
  }
  return Window{pages.mapping->bytes().first(bytes), pages.mapping};
}

void ThreadSharedMemory::close_window(int id) noexcept {
  MutexLock lock(mutex_);
  auto found = windows_.find(id);
  if (found != windows_.end() && ++found->second.closed == found->second.members)
    windows_.erase(found);
}

std::vector<int> ThreadSharedMemory::attach(int member, Time deadline) {
  MutexLock lock(mutex_);
  attached_[static_cast<size_t>(member)] = true;
  all_here_.notify_all();
  std::vector<int> missing;
  const auto complete = [&]() HVD_REQUIRES(mutex_) {
    missing.clear();
    for (size_t other = 0; other < attached_.size(); ++other) {
      if (!attached_[other]) missing.push_back(static_cast<int>(other));
    }
    return missing.empty();
  };
  if (deadline == kNever) {
    all_here_.wait(lock.native(), complete);
  } else {
    all_here_.wait_until(lock.native(), deadline, complete);
  }
  return missing;
}

void ThreadSharedMemory::publish(const std::string& token,
                                 const std::shared_ptr<ThreadSharedMemory>& shared) {
  Registry& all = registry();
  MutexLock lock(all.mutex);
  std::erase_if(all.entries, [](const auto& entry) { return entry.second.expired(); });
  all.entries[token] = shared;
}

std::shared_ptr<ThreadSharedMemory> ThreadSharedMemory::find(const std::string& token) {
  Registry& all = registry();
  MutexLock lock(all.mutex);
  const auto found = all.entries.find(token);
  return found == all.entries.end() ? nullptr : found->second.lock();
}

}  // namespace hvd::transport
