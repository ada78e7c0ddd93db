// SPDX-License-Identifier: Apache-2.0
// Engine: the end of a context whose driver has no memory for what it does.
//
// An exception leaves whatever it passed half done, so nothing of the sets' state is used any more. The list of all operations
// in flight, which needs no memory, is left, and so are a status and a message that were made at the start. So every operation
// ends, the role is free again, and the other ranks learn why this one does not go on.
#include <exception>

#include "engine/engine.h"

namespace hvd::engine {

// Called inside a handler.
Status Engine::take_collapse_reason() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return std::move(no_memory_);
  } catch (const std::exception& caught) {
    try {
      const int me = topology_.rank();
      return Status(Code::kInternal, topology_.describe(me) + ": " + caught.what()).with_rank(me);
    } catch (...) {
      return std::move(no_memory_);
    }
  } catch (...) {
    return std::move(no_memory_);
  }
}

// Called by the holder of the role, inside a handler.
void Engine::collapse() noexcept {
  if (std::exchange(collapsed_, true)) {
    fabric_->give_up();  // the fabric has no memory even for the news
    return;
  }
  Status why = take_collapse_reason();
  {
    MutexLock lock(submit_mutex_);
    submitted_.clear();
    deferred_.clear();
    has_submitted_.store(false);
    if (status_.ok() || status_.code() == Code::kShutDown) status_ = std::move(why);
  }
  accepted_.clear();
  ended_sets_.clear();
  early_.clear();
  for (const auto& [serial, set] : sets_) set->abandon();
  for (const auto& one : leaving_) one->begin_end(false);
  tell_of_collapse();
  for (;;) {
    Operation* operation = nullptr;
    Status worded = Status::out_of_memory(Code::kIo);
    {
      MutexLock lock(submit_mutex_);
      operation = all_in_flight_.first();
      if (operation == nullptr) return;
      try {
        worded = operation->worded(status_);
      } catch (...) {
        // The short text has to do.
      }
      give_name_back(*operation);
      unlist(*operation);
    }
    announce_end(operation, std::move(worded));
  }
}

void Engine::tell_of_collapse() noexcept {
  try {
    for (int rank = 0; rank < topology_.size(); ++rank) send(rank, no_memory_news_, true);
  } catch (...) {
    fabric_->give_up();
  }
  try {
    log_->write(LogLevel::kError, "engine", "the context ends: there was no memory for its work");
  } catch (...) {
    // The threads that wait are told all the same.
  }
}

// The collapse for a caller that is in the middle of something all ranks have agreed on.
Status Engine::collapse_as_guest() noexcept {
  Guest guest(*this);
  collapse();
  try {
    return status();
  } catch (...) {
    return Status::out_of_memory(Code::kIo);
  }
}

}  // namespace hvd::engine
