// SPDX-License-Identifier: Apache-2.0
// Allreduce. Small ones take one round in which everyone reduces everything; large ones are cut
// into blocks of which every member reduces its own part. In both, contributions are combined in
// member order and every part by one member or by all alike, so all members end up with the same
// bytes.
#include <algorithm>
#include <utility>

#include "collectives/algorithms.h"
#include "collectives/reduce.h"

namespace hvd::collectives {

namespace {

// Up to here all data in one round is faster than two rounds with a share of it each. The work of
// one round grows with the number of members.
constexpr size_t kAtOnceBytes = size_t{64} << 10;

// Parts with fewer bytes than this on average are not worth a kernel call each.
constexpr size_t kTinySegment = 1024;

size_t at_once_limit(const LaneState& state) {
  if (state.several_hosts()) return 0;
  return std::min(kAtOnceBytes / static_cast<size_t>(std::max(state.slots.count() - 1, 1)),
                  state.slots.chunk());
}

ReduceJob make_job(const Work& work) {
  ReduceJob job = job_of(work);
  const size_t element = dtype_size(work.dtype);
  job.segments.reserve(work.items.size());
  for (const Item& item : work.items) {
    if (item.count == 0) continue;
    job.segments.push_back({static_cast<const std::byte*>(item.in),
                            static_cast<std::byte*>(item.out), item.count * element});
    job.total += job.segments.back().bytes;
    if (item.in == nullptr) job.stage_own = true;
    if (item.out == nullptr) job.wanted = false;
  }
  job.many_tiny = job.segments.size() > 1 && job.total / job.segments.size() < kTinySegment;
  job.stage_own |= job.many_tiny;
  return job;
}

Program reduce_at_once(LaneState& state, ReduceJob job) {
  const uint32_t round = state.slots.begin(1);
  const int n = state.slots.count();
  const int me = state.slots.me();
  Cursor cursor(job.segments);
  for (int q = 0; q < n; ++q) {
    if (q != me) co_await state.slots.writable(q, round);
  }
  const Range all{0, job.total};
  const bool in_note = job.total <= kNoteBytes;
  std::byte* mine = in_note ? state.slots.note(round) : state.slots.send_buffer(round);
  gather(state, job, cursor, all, mine);
  state.slots.fill(round);
  for (int q = 0; q < n; ++q) {
    if (q != me) co_await state.slots.filled(q, round);
    const std::byte* theirs =
        in_note ? state.slots.note_of(round, q) : state.slots.send_buffer_of(round, q);
    state.chunks[static_cast<size_t>(q)] = q != me ? theirs : job.stage_own ? mine : nullptr;
  }
  combine(state, job, cursor, all, state.chunks.size(), state.slots.result(round), false);
  // published of this round is stored by the next begin().
}

}  // namespace

Program allreduce(LaneState& state, const Work& work) {
  ReduceJob job = make_job(work);
  if (job.total == 0) return {};
  if (job.op == ReduceOp::kAdasum) return adasum(state, std::move(job));
  if (job.total <= at_once_limit(state)) return reduce_at_once(state, std::move(job));
  if (state.several_hosts() && state.settings.hierarchical_allreduce)
    return reduce_by_hosts(state, std::move(job));
  job.blocks = Blocks::interleaved(job.total, state.size(), state.slots.chunk());
  return reduce_in_blocks(state, std::move(job));
}

}  // namespace hvd::collectives
