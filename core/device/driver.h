// SPDX-License-Identifier: Apache-2.0
// The CUDA driver, found at run time. Nothing of CUDA is needed to build or to load the library;
// the copy that a framework has loaded already is the one that is used.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"

// The driver's own names.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace hvd::device {

using Address = unsigned long long;
using ContextHandle = CUctx_st*;
using StreamHandle = CUstream_st*;
using EventHandle = CUevent_st*;
using ModuleHandle = CUmod_st*;
using FunctionHandle = CUfunc_st*;

// Error numbers and flags of the driver's interface.
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfDeviceMemory = 2;
inline constexpr int kNotReady = 600;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr unsigned kNonBlockingStream = 1;
inline constexpr unsigned kEventWithoutTiming = 2;
inline constexpr unsigned kPortableHostMemory = 1;
inline constexpr int kAttributeMemoryType = 2;
inline constexpr int kAttributeDevice = 9;
inline constexpr unsigned kMemoryOfHost = 1;

struct DriverCalls {
#define HVD_DRIVER_CALL(member, symbol, arguments) int(*member) arguments = nullptr;
#include "device/driver.def"
#undef HVD_DRIVER_CALL
};

class Driver {
 public:
  // kUnsupported, with what is missing, where there is no driver, no device, or one that is too
  // old.
  static Result<std::shared_ptr<const Driver>> open();

  const DriverCalls& calls() const { return calls_; }
  int device_count() const { return device_count_; }
  // Ok for 0; else `what` and the driver's words for the error. kOutOfMemory for its error of that
  // name, else kIo.
  Status check(int error, const char* what) const;

 private:
  Driver() = default;
  Status find_symbols(void* library);
  Status start();
  std::string words(int error) const;

  DriverCalls calls_;
  int version_ = 0;
  int device_count_ = 0;
};

}  // namespace hvd::device
