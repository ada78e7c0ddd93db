// SPDX-License-Identifier: Apache-2.0
// The communicator over a lane. Each collective has a file of its own; here is what the collectives
// share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/cache_topology.h"
#include "collectives/communicator.h"
#include "collectives/inter_host_pipeline.h"
#include "collectives/patterns.h"
#include "collectives/slots.h"
#include "collectives/stream_transfer.h"
#include "collectives/virtual_vector.h"

namespace hvd::collectives {

// The use of the members' contributions once they are side by side.
enum class Combine {
  kReduce,        // op
  kInnerProduct,  // adds the products of all pairs to `gram`; there is no result
  kWeightedSum,   // with `weights`
};

// A reduction, however it is distributed.
struct ReduceJob {
  std::vector<Segment> segments;
  size_t total = 0;  // bytes of all segments
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  bool stage_own = false;  // own input is first brought into one piece: scaled, or filled in for a joined member
  bool many_tiny = false;  // segments are too small to be handled one by one; implies stage_own
  bool wanted = true;      // results have somewhere to go
  Combine combine = Combine::kReduce;
  double* gram = nullptr;           // per segment n x n, n members
  const double* weights = nullptr;  // per segment n

  std::vector<size_t> bounds;  // only if the owners' shares are consecutive: where they begin, and the end
  Blocks blocks;               // how the data is divided among the owners
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
  // The plan of a gather. The segments are in the order in which the members of this host pass them
  // on.
  struct GatherJob {
    std::vector<Segment> segments;
    std::vector<size_t> bounds;  // per member of this host, the bytes that the member passes on
    std::vector<Range> shares;   // per member, the place of the contribution
    std::vector<int> to;         // members on other hosts that get this one's contribution directly
    std::vector<int> from;       // members on other hosts that send it theirs
    Blocks blocks;
  };
  // How a hierarchical allreduce is shared out. Pieces are numbered by owner, then by host.
  struct Owners {
    bool one_way = false;  // every host gets the sums of all others at once, with a single piece per owner
    int per_host = 1;
    int pieces = 1;    // per owner
    size_t ahead = 1;  // blocks whose inputs are sent before the first result; the same on all hosts
    Blocks blocks;
    Range slice(size_t block, int owner) const {
      return {blocks.range(block, owner * pieces).begin, blocks.range(block, owner * pieces + pieces - 1).end};
    }
  };
  // How far the buffer of a flat reduction has been filled and emptied, in blocks.
  struct FlatBuffer {
    Cursor cursor;
    size_t staged = 0;
    size_t released = 0;
  };

  Program nothing() { co_return; }
  size_t at_once_limit() const;
  ReduceJob make_job(const AllreduceArgs& args) const;
  Program reduce_at_once(ReduceJob job);
  Program reduce_in_blocks(ReduceJob job);
  Program reduce_on_host(ReduceJob job);
  Program reduce_flat(ReduceJob job);
  Program reduce_by_hosts(ReduceJob job);
  Program reducescatter_by_hosts(ReduceJob job);
  Program adasum(ReduceJob job);
  bool passes_on() const;
  void choose_ways(GatherJob& job) const;
  void connect_gather(const GatherJob& job, StreamTransfers& transfers, std::vector<const StreamTransfer*>& arriving) const;
  static bool arrived(const GatherJob& job, const std::vector<const StreamTransfer*>& arriving, Range range);
  Program run_allgather(GatherJob job);
  Program run_broadcast(const std::byte* in, std::byte* out, size_t bytes, int root);
  const StreamTransfer* connect_broadcast(StreamTransfers& transfers, const Segment& segment, const Blocks& blocks,
                                          int root) const;
  void exchange_remotely(const AlltoallArgs& args, std::span<const size_t> send_at, std::span<const size_t> receive_at,
                         StreamTransfers& transfers) const;
  Program run_alltoall(AlltoallArgs args);
  Program reducescatter_beside(ReduceJob job, std::vector<Segment> results);
  Program reducescatter_now(ReduceJob job);

  // Between hosts.
  Owners choose_owners(const ReduceJob& job) const;
  std::unique_ptr<InterHostPipeline> pipeline_by_hosts(const ReduceJob& job, const Owners& owners, bool buffered);
  std::unique_ptr<InterHostPipeline> pipeline_flat(const ReduceJob& job) const;
  std::unique_ptr<InterHostPipeline> pipeline_shares(const ReduceJob& job, const std::vector<int>& pieces, bool buffered);
  void add_hosts(const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor, size_t block, int mine, bool to_tensors);
  void add_members(const ReduceJob& job, InterHostPipeline& pipeline, Cursor& cursor, size_t block, uint32_t round);
  void turn_buffer_over(const ReduceJob& job, InterHostPipeline& pipeline, FlatBuffer& buffer) const;
  static Condition moving(const std::unique_ptr<InterHostPipeline>& pipeline, const Condition& condition) {
    return pipeline ? pipeline->transfers().meanwhile(condition) : condition;
  }

  // Fills a round: the send buffer gets range_of(q) for each other member q of this host.
  template <class RangeOf>
  void hand_over(const ReduceJob& job, Cursor& cursor, uint32_t round, RangeOf&& range_of) {
    for (int q = 0; q < slots_.count(); ++q) {
      if (q != slots_.me()) gather(job, cursor, range_of(q), slots_.send_buffer(round, q), cache_topology_.far(q));
    }
    cache_topology_.show(round);
    slots_.fill(round);
  }
  void gather(const ReduceJob& job, Cursor& cursor, Range range, std::byte* to, bool for_far = false) const;
  static void scatter(Cursor& cursor, Range range, const std::byte* from);
  void combine(const ReduceJob& job, Cursor& cursor, Range range, size_t n, std::byte* result, bool keep_result);
  void combine_flat(const ReduceJob& job, size_t n, size_t bytes, std::byte* result, double postscale);
  void combine_stretch(const ReduceJob& job, const Segment& segment, size_t n, void* out, void* copy, size_t count);
  void add_local(const ReduceJob& job, Cursor& cursor, Range range, std::byte* result);

  int size() const { return lane_.size(); }
  bool remote(int member) const { return lane_.streams[static_cast<size_t>(member)] != nullptr; }
  transport::Stream& stream(int member) const { return *lane_.streams[static_cast<size_t>(member)]; }
  bool several_hosts() const { return lane_.hosts > 1; }

  transport::Lane& lane_;
  Settings settings_;
  Slots slots_;
  CacheTopology cache_topology_;
  HostMap map_;
  // Scratch of the one program that runs.
  std::vector<const std::byte*> chunks_;  // per member, the contribution to the chunk at hand; null: own input, in place
  std::vector<const void*> sources_;      // per contribution, the place of the stretch at hand
};

// How far inputs run ahead of results between hosts, when a block of everyone's has so many pieces.
size_t blocks_ahead(const Blocks& blocks, size_t pieces);

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
