// SPDX-License-Identifier: Apache-2.0
// The communicator over a lane. Its collectives live one to a file; what they share is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/patterns.h"
#include "collectives/slots.h"
#include "collectives/stream_ops.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {

// What happens to the contributions of the members once they are side by side.
enum class Combine {
  kReduce,        // op
  kInnerProduct,  // of all pairs, added to `gram`; there is no result
  kWeightedSum,   // with `weights`
};

// A reduction, however it is distributed.
struct ReduceJob {
  std::vector<Part> parts;
  size_t total = 0;  // bytes of all parts
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool stage_own = false;  // own input is first brought into one piece: scaled, or filled in for a joined member
  bool many_tiny = false;  // parts are too small to be handled one by one; implies stage_own
  bool wanted = true;      // results have somewhere to go
  Combine combine = Combine::kReduce;
  double* gram = nullptr;           // per part n x n, n members
  const double* weights = nullptr;  // per part n

  std::vector<size_t> bounds;  // only if the owners' shares are consecutive: where they begin, and the end
  Blocks blocks;               // who reduces what
  bool collect = true;         // every member receives what the others reduced
};

class LaneCommunicator final : public Communicator {
 public:
  LaneCommunicator(transport::Lane& lane, const Settings& settings);

  Program allreduce(const AllreduceArgs& args) override;
  Program allgather(std::span<const GatherPiece> pieces) override;
  Program broadcast(const void* in, void* out, size_t bytes, int root_member) override;
  Program alltoall(const AlltoallArgs& args) override;
  Program reducescatter(std::span<const ScatterPiece> pieces, DType dtype, ReduceOp op, double prescale,
                        double postscale) override;

 private:
  struct GatherJob {
    std::vector<Part> parts;     // member after member
    std::vector<size_t> bounds;  // per member
    Blocks blocks;
  };

  Program nothing() { co_return; }
  size_t at_once_limit() const;
  ReduceJob make_job(const AllreduceArgs& args) const;
  Program reduce_at_once(ReduceJob job);
  Program reduce_in_blocks(ReduceJob job);
  Program reduce_by_hosts(ReduceJob job);
  Program adasum(ReduceJob job);
  Program run_allgather(GatherJob job);
  Program run_broadcast(const std::byte* in, std::byte* out, size_t bytes, int root);
  Program run_alltoall(AlltoallArgs args);
  Program reducescatter_beside(ReduceJob job, std::vector<Part> results);

  // Of one block, between this member and those on other hosts.
  void exchange_inputs(const ReduceJob& job, size_t block, Exchange& exchange);
  void exchange_results(const ReduceJob& job, size_t block, const std::byte* result, Exchange& exchange);

  void gather(const ReduceJob& job, Cursor& cursor, Range range, std::byte* to) const;
  static void scatter(Cursor& cursor, Range range, const std::byte* from);
  void combine(const ReduceJob& job, Cursor& cursor, Range range, std::byte* result, bool keep_result);
  void combine_flat(const ReduceJob& job, size_t n, size_t bytes, std::byte* result, double postscale);
  void combine_stretch(const ReduceJob& job, const Part& part, void* out, void* copy, size_t count);

  int size() const { return lane_.size(); }
  bool remote(int member) const { return lane_.streams[static_cast<size_t>(member)] != nullptr; }
  transport::Stream& stream(int member) const { return *lane_.streams[static_cast<size_t>(member)]; }
  bool several_hosts() const { return lane_.hosts > 1; }
  int first_remote() const;
  std::vector<std::vector<int>> members_by_host() const;

  transport::Lane& lane_;
  Settings settings_;
  Slots slots_;
  // Scratch of the one program that runs.
  std::vector<const std::byte*> chunks_;  // per member: its contribution to the chunk at hand; null: own input, in place
  std::vector<const void*> sources_;      // per contribution: where it is for the stretch at hand
  std::vector<std::byte> received_;       // with several hosts: a chunk from every member
  std::vector<std::byte> prepared_;       // and one for every member
};

// Runs `program` to its end inside another.
inline Condition until_done(Program& program) {
  return {.counter = nullptr,
          .at_least = 0,
          .ready =
              [](void* self) {
                Program& inner = *static_cast<Program*>(self);
                while (inner.step()) {
                }
                return inner.done();
              },
          .self = &program,
          .member = -1};
}

}  // namespace hvd::collectives
