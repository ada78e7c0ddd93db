// SPDX-License-Identifier: Apache-2.0
// The parts that every entry point shares: the opaque types, the guard that keeps exceptions
// inside, and the reading of structs whose size the caller states.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include "base/status.h"
#include "context/context.h"
#include "engine/engine.h"
#include "hvd/hvd.h"

struct hvd_process_set {
  std::shared_ptr<hvd::engine::ProcessSet> set;
  bool of_context = false;  // the context's own world, which lives and goes with it
};

struct hvd_context {
  std::shared_ptr<hvd::engine::Engine> engine;
  std::shared_ptr<hvd::rendezvous::Membership> membership;  // empty in a job of fixed members
  std::shared_ptr<hvd::observe::Timeline> timeline;
  hvd_process_set world;
};

namespace hvd::capi {

// Fills the caller's error, if there is one to fill.
hvd_status report(hvd_error* error, const Status& status) noexcept;
// The same with a text that need not be copied first, for when there is no memory.
hvd_status report(hvd_error* error, Code code, std::string_view text) noexcept;

// Runs `body`, which returns Status, and turns whatever happens into an hvd_status.
template <class Body>
hvd_status guard(hvd_error* error, Body&& body) noexcept {
  try {
    const Status status = body();
    if (status.ok()) return HVD_OK;
    if (status.code() == Code::kPending) return HVD_PENDING;
    return report(error, status);
  } catch (const std::bad_alloc&) {
    return report(error, Status::out_of_memory());
  } catch (const std::exception& caught) {
    return report(error, Code::kInternal, caught.what());
  } catch (...) {
    return report(error, Code::kInternal, "unknown exception");
  }
}

Status null_argument(const char* name);
Status forked_context();

// Copies a sized struct of the caller over `out`, whose initial value supplies fields the caller
// does not know. `first` is the size in version 1.
Status read_sized(const void* from, const char* type, size_t first, size_t known, void* out);

// The same check for a struct that the library fills: how many bytes may be written.
Status check_sized(const void* to, const char* type, size_t first, size_t* writable);

// The two-call protocol for arrays: values may be null to ask for the count only.
template <class T>
Status give_array(const std::vector<T>& values, T* out, size_t* count, const char* what) {
  const size_t capacity = *count;
  *count = values.size();
  if (out == nullptr) return {};
  if (capacity < values.size()) {
    return Status(Code::kInvalidArgument, std::string(what) + ": room for " +
                                              std::to_string(capacity) + ", needed " +
                                              std::to_string(values.size()));
  }
  if (!values.empty()) std::memcpy(out, values.data(), values.size() * sizeof(T));
  return {};
}

inline engine::Operation* operation_of(hvd_handle* handle) {
  return reinterpret_cast<engine::Operation*>(handle);
}
inline const engine::Operation* operation_of(const hvd_handle* handle) {
  return reinterpret_cast<const engine::Operation*>(handle);
}
inline hvd_handle* handle_of(engine::Operation* operation) {
  return reinterpret_cast<hvd_handle*>(operation);
}

}  // namespace hvd::capi
