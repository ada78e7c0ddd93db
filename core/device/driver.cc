// SPDX-License-Identifier: Apache-2.0
#include "device/driver.h"

#include <dlfcn.h>

namespace hvd::device {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr int kOldest = 11000;

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

Status missing(const std::string& what) {
  return Status(Code::kUnsupported, what + "; CPU tensors are not affected");
}

}  // namespace

Result<std::shared_ptr<const Driver>> Driver::open() {
  // Never closed: a driver that is unloaded takes the process's contexts with it.
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return missing(std::string("there is no CUDA driver on this machine (") +
                   (why == nullptr ? kLibrary : why) + ")");
  }
  std::shared_ptr<Driver> driver(new Driver());
  HVD_TRY(driver->find_symbols(library));
  HVD_TRY(driver->start());
  return std::shared_ptr<const Driver>(std::move(driver));
}

Status Driver::find_symbols(void* library) {
  std::string absent;
#define HVD_DRIVER_CALL(member, symbol, arguments)                              \
  calls_.member = reinterpret_cast<int(*) arguments>(::dlsym(library, symbol)); \
  if (calls_.member == nullptr && absent.empty()) absent = symbol;
#include "device/driver.def"
#undef HVD_DRIVER_CALL
  if (calls_.driver_version != nullptr) calls_.driver_version(&version_);
  const bool known = version_ > 0;
  if (absent.empty() && (!known || version_ >= kOldest)) return {};
  const std::string lack = absent.empty() ? "" : " lacks " + absent + " and";
  return missing("the CUDA driver (" + std::string(kLibrary) +
                 (known ? ", for CUDA " + version_text(version_) : "") + ")" + lack +
                 " is too old: CUDA " + version_text(kOldest) + " is the oldest that is supported");
}

Status Driver::start() {
  if (const int error = calls_.init(0); error != 0)
    return missing("the CUDA driver does not start: " + words(error));
  if (const int error = calls_.device_count(&device_count_); error != 0) {
    return missing("the CUDA driver does not count its devices: " + words(error));
  }
  if (device_count_ == 0)
    return missing("the CUDA driver shows no device; CUDA_VISIBLE_DEVICES may hide it");
  return {};
}

std::string Driver::words(int error) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (calls_.error_name(error, &name) != 0 || name == nullptr)
    return "error " + std::to_string(error);
  if (calls_.error_text(error, &text) != 0 || text == nullptr) return name;
  return std::string(name) + ", " + text;
}

Status Driver::check(int error, const char* what) const {
  if (error == 0) return {};
  return Status(error == kOutOfDeviceMemory ? Code::kOutOfMemory : Code::kIo,
                std::string(what) + ": " + words(error));
}

}  // namespace hvd::device
