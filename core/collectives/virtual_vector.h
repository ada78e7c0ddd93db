// SPDX-License-Identifier: Apache-2.0
// Many tensors seen as one vector of bytes, so that fused operations move data between the tensors
// and the slots directly.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

namespace hvd::collectives {

// A tensor, or a piece of one, in that vector.
struct Segment {
  const std::byte* in;  // null: nothing to contribute
  std::byte* out;       // null: result not wanted
  size_t bytes;         // not zero
};

struct Range {
  size_t begin;
  size_t end;
  size_t size() const { return end - begin; }
};

// A place in the vector. Moving to a place near the last one is cheap; the ends of the vector are
// as far apart as it has segments. The segments, at least one unless nothing is visited, outlive
// the cursor.
class Cursor {
 public:
  explicit Cursor(std::span<const Segment> segments)
      : segment_(segments.data()),
        last_(segments.empty() ? nullptr : segments.data() + segments.size() - 1) {}

  // Calls visitor(segment, offset in the segment, length, offset from range.begin) for every
  // contiguous stretch of the range.
  template <class Visitor>
  void visit(Range range, Visitor&& visitor) {
    if (range.begin >= range.end) return;
    seek(range.begin);
    size_t at = range.begin;
    for (;;) {
      const size_t offset = at - start_;
      const size_t length = std::min(segment_->bytes - offset, range.end - at);
      visitor(*segment_, offset, length, at - range.begin);
      at += length;
      if (at == range.end) return;
      start_ += segment_->bytes;
      ++segment_;
    }
  }

  // The same for the first `most` stretches: visitor(index, segment, offset, length). Returns how
  // many there were.
  template <class Visitor>
  size_t first_stretches(Range range, size_t most, Visitor&& visitor) {
    size_t used = 0;
    for (size_t at = range.begin; at < range.end && used < most; ++used) {
      seek(at);
      const size_t length = std::min(start_ + segment_->bytes, range.end) - at;
      visitor(used, *segment_, at - start_, length);
      at += length;
    }
    return used;
  }

 private:
  void seek(size_t at) {
    while (at < start_) start_ -= (--segment_)->bytes;
    while (at >= start_ + segment_->bytes && segment_ != last_) {
      start_ += segment_->bytes;
      ++segment_;
    }
  }

  const Segment* segment_;
  const Segment* last_;
  size_t start_ = 0;  // where *segment_ begins
};

}  // namespace hvd::collectives
