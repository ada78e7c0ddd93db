// SPDX-License-Identifier: Apache-2.0
// Allreduce. Small ones take one round in which everyone reduces everything; large ones are cut into blocks of which every
// member reduces its own part. In both, contributions are combined in member order and every part by one member or by all
// alike, so all members end up with the same bytes.
#include "collectives/lane_communicator.h"

namespace hvd::collectives {

namespace {

// Up to here all data in one round is faster than two rounds with a share of it each. The work of one round grows with the
// number of members.
constexpr size_t kAtOnceBytes = size_t{64} << 10;

// Parts with fewer bytes than this on average are not worth a kernel call each.
constexpr size_t kTinySegment = 1024;

}  // namespace

size_t LaneCommunicator::at_once_limit() const {
  if (several_hosts()) return 0;
  return std::min(kAtOnceBytes / static_cast<size_t>(std::max(slots_.count() - 1, 1)), slots_.chunk());
}

ReduceJob LaneCommunicator::make_job(const AllreduceArgs& args) const {
  ReduceJob job;
  const size_t element = dtype_size(args.dtype);
  job.segments.reserve(args.pieces.size());
  for (const Piece& piece : args.pieces) {
    if (piece.count == 0) continue;
    job.segments.push_back(
        {static_cast<const std::byte*>(piece.in), static_cast<std::byte*>(piece.out), piece.count * element});
    job.total += job.segments.back().bytes;
    if (piece.in == nullptr) job.stage_own = true;
    if (piece.out == nullptr) job.wanted = false;
  }
  job.dtype = args.dtype;
  job.op = args.op;
  job.prescale = args.prescale;
  job.postscale = args.postscale;
  job.many_tiny = job.segments.size() > 1 && job.total / job.segments.size() < kTinySegment;
  job.stage_own |= job.prescale != 1.0 || job.many_tiny;
  return job;
}

Program LaneCommunicator::allreduce(const AllreduceArgs& args) {
  ReduceJob job = make_job(args);
  if (job.total == 0) return nothing();
  if (job.op == ReduceOp::kAdasum) return adasum(std::move(job));
  if (job.total <= at_once_limit()) return reduce_at_once(std::move(job));
  if (several_hosts() && settings_.hierarchical_allreduce) return reduce_by_hosts(std::move(job));
  job.blocks = Blocks::interleaved(job.total, size(), slots_.chunk());
  return reduce_in_blocks(std::move(job));
}

Program LaneCommunicator::reduce_at_once(ReduceJob job) {
  const uint32_t round = slots_.begin(1);
  const int n = slots_.count();
  const int me = slots_.me();
  Cursor cursor(job.segments);
  for (int q = 0; q < n; ++q) {
    if (q != me) co_await slots_.writable(q, round);
  }
  const Range all{0, job.total};
  const bool in_note = job.total <= kNoteBytes;
  std::byte* mine = in_note ? slots_.note(round) : slots_.send_buffer(round);
  gather(job, cursor, all, mine);
  slots_.fill(round);
  for (int q = 0; q < n; ++q) {
    if (q != me) co_await slots_.filled(q, round);
    const std::byte* theirs = in_note ? slots_.note_of(round, q) : slots_.send_buffer_of(round, q);
    chunks_[static_cast<size_t>(q)] = q != me ? theirs : job.stage_own ? mine : nullptr;
  }
  combine(job, cursor, all, chunks_.size(), slots_.result(round), false);
  // published of this round is stored by the next begin().
}

}  // namespace hvd::collectives
