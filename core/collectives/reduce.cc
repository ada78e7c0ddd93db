// SPDX-License-Identifier: Apache-2.0
// What the reducing collectives share: moving data between tensors and slots, and putting contributions together.
#include <cstring>

#include "collectives/lane_communicator.h"
#include "kernels/reduce.h"

namespace hvd::collectives {

void LaneCommunicator::gather(const ReduceJob& job, Cursor& cursor, Range range, std::byte* to, bool for_far) const {
  const size_t element = dtype_size(job.dtype);
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    if (segment.in == nullptr) {
      kernels::fill_identity(job.dtype, job.op, to + done, length / element);
    } else if (job.prescale != 1.0) {
      kernels::scale(job.dtype, to + done, segment.in + offset, length / element, job.prescale);
    } else {
      copy_for(for_far, to + done, segment.in + offset, length);
    }
  });
}

void LaneCommunicator::scatter(Cursor& cursor, Range range, const std::byte* from) {
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    // Writing with non-temporal stores was measured to be no faster even for results far larger than them.
    if (segment.out != nullptr) std::memcpy(segment.out + offset, from + done, length);
  });
}

// Puts the first n of sources_ together into `out` and, if not null, `copy`.
void LaneCommunicator::combine_stretch(const ReduceJob& job, const Segment& segment, size_t n, void* out, void* copy,
                                       size_t count) {
  const size_t index = static_cast<size_t>(&segment - job.segments.data());
  // The copy is for others to read. Between hosts this member sends it on.
  const bool read_here = copy != nullptr && !several_hosts();
  const bool non_temporal = read_here && stores_non_temporally(cache_topology_.far_from_most(), count * dtype_size(job.dtype));
  switch (job.combine) {
    case Combine::kReduce:
      kernels::reduce({.dtype = job.dtype,
                       .op = job.op,
                       .dst = non_temporal ? copy : out,
                       .dst2 = non_temporal ? out : copy,
                       .srcs = sources_.data(),
                       .nsrc = n,
                       .count = count,
                       .postscale = job.postscale,
                       .non_temporal = non_temporal});
      return;
    case Combine::kInnerProduct: kernels::gram(job.dtype, sources_.data(), n, count, job.gram + index * n * n); return;
    case Combine::kWeightedSum:
      kernels::weighted_sum(job.dtype, out, copy, sources_.data(), job.weights + index * n, n, count, job.postscale);
      return;
  }
}

// Puts the contributions in the first n of chunks_ to `range` together, in order: into the tensors, and into `result` if
// keep_result. `result` is also used as scratch.
void LaneCommunicator::combine(const ReduceJob& job, Cursor& cursor, Range range, size_t n, std::byte* result,
                               bool keep_result) {
  if (range.begin >= range.end) return;
  const size_t element = dtype_size(job.dtype);
  if (job.many_tiny && job.combine == Combine::kReduce) {
    for (size_t m = 0; m < n; ++m) sources_[m] = chunks_[m];
    combine_stretch(job, job.segments[0], n, result, nullptr, range.size() / element);
    scatter(cursor, range, result);
    return;
  }
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    for (size_t m = 0; m < n; ++m) sources_[m] = chunks_[m] != nullptr ? chunks_[m] + done : segment.in + offset;
    void* out = segment.out != nullptr ? segment.out + offset : result + done;
    void* copy = segment.out != nullptr && keep_result ? result + done : nullptr;
    combine_stretch(job, segment, n, out, copy, length / element);
  });
}

// Combines the first n of chunks_ into `result`, which may be one of them.
void LaneCommunicator::combine_flat(const ReduceJob& job, size_t n, size_t bytes, std::byte* result, double postscale) {
  std::copy_n(chunks_.begin(), n, sources_.begin());
  kernels::reduce({.dtype = job.dtype,
                   .op = job.op,
                   .dst = result,
                   .dst2 = nullptr,
                   .srcs = sources_.data(),
                   .nsrc = n,
                   .count = bytes / dtype_size(job.dtype),
                   .postscale = postscale,
                   .non_temporal = false});
}

// Reduces the chunks of this host's members into `result`, unscaled. The own chunk, null, is what the tensors have.
void LaneCommunicator::add_local(const ReduceJob& job, Cursor& cursor, Range range, std::byte* result) {
  const size_t n = static_cast<size_t>(slots_.count());
  if (job.stage_own) {
    gather(job, cursor, range, result);
    chunks_[static_cast<size_t>(slots_.me())] = result;
    combine_flat(job, n, range.size(), result, 1.0);
    return;
  }
  const size_t element = dtype_size(job.dtype);
  cursor.visit(range, [&](const Segment& segment, size_t offset, size_t length, size_t done) {
    for (size_t m = 0; m < n; ++m) sources_[m] = chunks_[m] != nullptr ? chunks_[m] + done : segment.in + offset;
    kernels::reduce({.dtype = job.dtype,
                     .op = job.op,
                     .dst = result + done,
                     .dst2 = nullptr,
                     .srcs = sources_.data(),
                     .nsrc = n,
                     .count = length / element,
                     .postscale = 1.0,
                     .non_temporal = false});
  });
}

}  // namespace hvd::collectives
