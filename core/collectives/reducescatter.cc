// SPDX-License-Identifier: Apache-2.0
// Reducescatter: the block pipeline with consecutive shares and without its second half.
#include <cstring>
#include <functional>

#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Whether writing results piece by piece could destroy input that is still to be read. Results in place of the own share of
// the input are fine.
bool overlaps(const std::byte* in, size_t in_bytes, const std::byte* out, size_t out_bytes, size_t own_offset) {
  if (in == nullptr || out == nullptr || out == in + own_offset) return false;
  const std::less<const std::byte*> before;
  return before(out, in + in_bytes) && before(in, out + out_bytes);
}

}  // namespace

Program LaneCommunicator::reducescatter(std::span<const ScatterPiece> pieces, DType dtype, ReduceOp op, double prescale,
                                        double postscale) {
  const size_t element = dtype_size(dtype);
  const size_t n = static_cast<size_t>(size());
  const size_t me = static_cast<size_t>(lane_.me);
  ReduceJob job;
  job.dtype = dtype;
  job.op = op;
  job.prescale = prescale;
  job.postscale = postscale;
  job.stage_own = prescale != 1.0;
  job.collect = false;
  std::vector<size_t> done(pieces.size());  // per piece: bytes of the members before
  std::vector<Part> results;
  bool aliased = false;
  for (size_t m = 0; m < n; ++m) {
    job.bounds.push_back(job.total);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const ScatterPiece& piece = pieces[i];
      const size_t bytes = piece.counts_of[m] * element;
      const std::byte* in = static_cast<const std::byte*>(piece.in);
      std::byte* out = m == me ? static_cast<std::byte*>(piece.out) : nullptr;
      if (bytes != 0) {
        job.parts.push_back({in != nullptr ? in + done[i] : nullptr, out, bytes});
        if (in == nullptr) job.stage_own = true;
        if (out != nullptr) {
          size_t whole = 0;
          for (size_t count : piece.counts_of) whole += count * element;
          aliased |= overlaps(in, whole, out, bytes, done[i]);
          results.push_back({nullptr, out, bytes});
        }
      }
      done[i] += bytes;
      job.total += bytes;
    }
  }
  job.bounds.push_back(job.total);
  job.blocks = Blocks::by_owner(job.bounds, slots_.chunk());
  if (aliased) return reducescatter_beside(std::move(job), std::move(results));
  return reduce_in_blocks(std::move(job));
}

// With results in memory of its own until all input has been read. `results` are the wanted outputs in order.
Program LaneCommunicator::reducescatter_beside(ReduceJob job, std::vector<Part> results) {
  const size_t me = static_cast<size_t>(lane_.me);
  std::vector<std::byte> beside(job.bounds[me + 1] - job.bounds[me]);
  size_t at = 0;
  for (Part& part : job.parts) {
    if (part.out == nullptr) continue;
    part.out = beside.data() + at;
    at += part.bytes;
  }
  Program inner = reduce_in_blocks(std::move(job));
  co_await until_done(inner);
  at = 0;
  for (const Part& part : results) {
    std::memcpy(part.out, beside.data() + at, part.bytes);
    at += part.bytes;
  }
}

}  // namespace hvd::collectives
