// SPDX-License-Identifier: Apache-2.0
// Scratch memory that grows and is kept, so that steady state allocates nothing.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/status.h"

namespace hvd::backend::plugin {

class Scratch {
 public:
  // At least `bytes`, contents undefined afterwards.
  Status reserve(size_t bytes) {
    if (bytes <= size_) return {};
    constexpr size_t kLine = 64;
    const size_t rounded = (bytes + kLine - 1) / kLine * kLine;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kLine, rounded)));
    size_ = memory_ ? rounded : 0;
    if (memory_) return {};
    return Status(Code::kOutOfMemory,
                  "no memory for " + std::to_string(bytes) + " bytes on their way to another rank");
  }
  std::byte* data() const { return memory_.get(); }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

}  // namespace hvd::backend::plugin
