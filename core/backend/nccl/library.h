// SPDX-License-Identifier: Apache-2.0
// NCCL, found at run time: the copy that a framework has loaded already, else the one of PyPI's
// package beside ours, else the system's.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/driver.h"

// The library's own names: a sanitizer compares the names of a call's types with those of the
// function that it reaches.
struct ncclComm;

struct ncclUniqueId {
  char internal[128];
};

// The oldest configuration, which all versions take, since they know its size and version.
struct ncclConfig {
  size_t size = sizeof(ncclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

namespace hvd::backend::nccl {

using CommHandle = ncclComm*;
using UniqueId = ncclUniqueId;
using Config = ncclConfig;
using device::StreamHandle;

// Numbers of the library's interface.
inline constexpr int kSuccess = 0;
inline constexpr int kRemoteError = 6;
inline constexpr int kInProgress = 7;
inline constexpr int kSum = 0;
inline constexpr int kProduct = 1;
inline constexpr int kMax = 2;
inline constexpr int kMin = 3;
inline constexpr int kBytes = 1;          // the element type uint8
inline constexpr int kHostImmediate = 1;  // where a factor is

struct Calls {
#define HVD_NCCL_CALL(type, member, symbol, arguments) type(*member) arguments = nullptr;
#define HVD_NCCL_OPTIONAL HVD_NCCL_CALL
#include "backend/nccl/nccl.def"
#undef HVD_NCCL_OPTIONAL
#undef HVD_NCCL_CALL
};

class Library {
 public:
  // `path` of the library or its folder; empty looks for it. kUnsupported, with what is missing.
  static Result<std::shared_ptr<const Library>> open(const std::string& path);

  const Calls& calls() const { return calls_; }
  int version() const { return version_; }  // 22703 is 2.27.3
  // "NCCL 2.27.3"
  std::string name() const;
  const std::string& path() const { return path_; }
  // Ok for kSuccess and kInProgress; else `what` and the library's words for the error.
  Status check(int error, const char* what, CommHandle comm = nullptr) const;

 private:
  Library() = default;
  Status find_symbols(void* library);

  Calls calls_;
  int version_ = 0;
  std::string path_;
};

}  // namespace hvd::backend::nccl
