// SPDX-License-Identifier: Apache-2.0
#include "observe/clock_offset.h"

#include <algorithm>
#include <string>

#include "engine/draft.h"

namespace hvd::observe {

namespace {

// The narrowest range counts, so a round that was held up does no harm.
constexpr int kRounds = 8;

int64_t nanoseconds() { return now().time_since_epoch().count(); }

// The sum of all ranks' numbers in place of this rank's.
Status sum(const std::shared_ptr<engine::Engine>& engine, const std::string& name, Duration limit,
           std::vector<int64_t>* numbers) {
  engine::Draft draft(engine);
  engine::CallArguments call;
  call.kind = OpKind::kAllreduce;
  call.set = engine->world();
  call.name = "clock";
  call.tensors = 1;
  call.timeout_ns = limit.count();
  call.reduce_op = static_cast<int32_t>(ReduceOp::kSum);
  HVD_TRY(draft.begin(std::move(call)));
  const int64_t count = static_cast<int64_t>(numbers->size());
  engine::GivenTensor tensor;
  tensor.data = numbers->data();
  tensor.bytes = numbers->size() * sizeof(int64_t);
  tensor.dtype = DType::kInt64;
  tensor.dims = {&count, 1};
  HVD_TRY(draft.take_input(tensor, {"input", 0, 1}));
  HVD_TRY(draft.take_output(tensor, {"output", 0, 1}));
  auto operation = draft.finish(nullptr);
  if (!operation.ok()) return operation.status();
  operation.value()->set_name(name.c_str());  // a name that no user can give
  const auto submitted = engine->submit(std::move(operation).value());
  if (!submitted.ok()) return submitted.status();
  Status status = engine->wait(*submitted.value(), kNever);
  if (status.ok()) status = submitted.value()->result();
  submitted.value()->drop_reference();
  return status;
}

}  // namespace

ClockOffset OffsetRange::middle() const {
  if (low == INT64_MIN || high == INT64_MAX) return {};
  const int64_t width = std::max<int64_t>(high - low, 0);
  return {true, low + width / 2, width - width / 2};
}

// Rank 0 tells when it has submitted an operation, which was before the operation ended here, and
// then when that operation ended at rank 0, which was after it had been submitted here.
Result<ClockOffset> measure_clock(const std::shared_ptr<engine::Engine>& engine, Duration limit) {
  const Topology& topology = engine->topology();
  constexpr ClockOffset kNone{true, 0, 0};
  if (topology.host_count() == 1) return kNone;
  const bool leads = topology.rank() == 0;
  OffsetRange range;
  int64_t submitted_before = 0, ended = 0;
  for (int round = 0; round <= kRounds; ++round) {
    const int64_t submitted = nanoseconds();
    std::vector<int64_t> of_rank_0 = {leads ? submitted : 0, leads ? ended : 0};
    const std::string name = "hvd:clock." + std::to_string(round);
    HVD_TRY(sum(engine, name, limit, &of_rank_0));
    ended = nanoseconds();
    range.before(of_rank_0[0], ended);
    if (round > 0) range.after(of_rank_0[1], submitted_before);
    submitted_before = submitted;
  }
  // All ranks of a host have one clock, so all of their ranges hold for it.
  std::vector<int64_t> ranges(static_cast<size_t>(topology.size()) * 2, 0);
  const auto mine = static_cast<size_t>(topology.rank()) * 2;
  ranges[mine] = range.low;
  ranges[mine + 1] = range.high;
  HVD_TRY(sum(engine, "hvd:clock.ranges", limit, &ranges));
  if (topology.host_index(topology.rank()) == topology.host_index(0)) return kNone;
  for (const int rank : topology.local_ranks()) {
    const auto at = static_cast<size_t>(rank) * 2;
    range.cut({ranges[at], ranges[at + 1]});
  }
  return range.middle();
}

}  // namespace hvd::observe
