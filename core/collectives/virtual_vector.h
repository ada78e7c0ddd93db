// SPDX-License-Identifier: Apache-2.0
// Many tensors seen as one vector of bytes, so that fused operations move data between the tensors and the slots directly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace hvd::collectives {

struct Part {
  const std::byte* in;  // null: nothing to contribute
  std::byte* out;       // null: result not wanted
  size_t bytes;         // not zero
};

struct Range {
  size_t begin;
  size_t end;
  size_t size() const { return end - begin; }
};

// A place in the vector. Moving to a place near the last one is cheap; the ends of the vector are as far apart as it has
// parts. The parts, at least one unless nothing is visited, outlive the cursor.
class Cursor {
 public:
  explicit Cursor(std::span<const Part> parts)
      : part_(parts.data()), last_(parts.empty() ? nullptr : parts.data() + parts.size() - 1) {}

  // Calls visitor(part, offset in the part, length, offset from range.begin) for every contiguous stretch of the range.
  template <class Visitor>
  void visit(Range range, Visitor&& visitor) {
    if (range.begin >= range.end) return;
    seek(range.begin);
    size_t at = range.begin;
    for (;;) {
      const size_t offset = at - start_;
      const size_t length = std::min(part_->bytes - offset, range.end - at);
      visitor(*part_, offset, length, at - range.begin);
      at += length;
      if (at == range.end) return;
      start_ += part_->bytes;
      ++part_;
    }
  }

  // The same for the first `most` stretches: visitor(index, part, offset, length). Returns how many there were.
  template <class Visitor>
  size_t first_stretches(Range range, size_t most, Visitor&& visitor) {
    size_t used = 0;
    for (size_t at = range.begin; at < range.end && used < most; ++used) {
      seek(at);
      const size_t length = std::min(start_ + part_->bytes, range.end) - at;
      visitor(used, *part_, at - start_, length);
      at += length;
    }
    return used;
  }

 private:
  void seek(size_t at) {
    while (at < start_) start_ -= (--part_)->bytes;
    while (at >= start_ + part_->bytes && part_ != last_) {
      start_ += part_->bytes;
      ++part_;
    }
  }

  const Part* part_;
  const Part* last_;
  size_t start_ = 0;  // where *part_ begins
};

}  // namespace hvd::collectives
