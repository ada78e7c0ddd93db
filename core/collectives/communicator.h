// SPDX-License-Identifier: Apache-2.0
// The collectives of one process set over its lane. A communicator runs a single program at a time:
// the engine starts the next only when the last is done, in the same order on every member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/dtype.h"
#include "collectives/program.h"
#include "transport/lane.h"

namespace hvd::collectives {

// A tensor of a fused reduction. in == nullptr: this rank contributes nothing (it has joined). out
// == nullptr: the result is not wanted here. out == in: in place.
struct Piece {
  const void* in;
  void* out;
  size_t count;  // elements, the same on every member
};

struct AllreduceArgs {
  std::span<const Piece> pieces;
  DType dtype;
  ReduceOp op;  // kSum kMin kMax kProduct kAdasum; the caller turns kAverage into kSum with a postscale
  double prescale = 1.0;
  double postscale = 1.0;
};

// A tensor of an allgather; bytes_of[m] come from member m and land one after another in `out`.
struct GatherPiece {
  const void* in;  // may be out + own offset
  void* out;
  std::span<const size_t> bytes_of;  // per member
};

// A tensor of a reducescatter: member m receives counts_of[m] elements, in member order.
struct ScatterPiece {
  const void* in;
  void* out;  // may be in + own offset, or in
  std::span<const size_t> counts_of;
};

struct AlltoallArgs {
  const void* in;
  void* out;
  std::span<const size_t> send_bytes;     // per member, consecutive blocks of `in`
  std::span<const size_t> receive_bytes;  // per member, consecutive blocks of `out`
};

// All spans and buffers outlive the program. Creating a program does nothing yet; the first step() starts it.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual Program allreduce(const AllreduceArgs& args) = 0;
  virtual Program allgather(std::span<const GatherPiece> pieces) = 0;
  virtual Program broadcast(const void* in, void* out, size_t bytes, int root_member) = 0;
  virtual Program alltoall(const AlltoallArgs& args) = 0;
  virtual Program reducescatter(std::span<const ScatterPiece> pieces, DType dtype, ReduceOp op, double prescale,
                                double postscale) = 0;
};

// Whether what other members of a host are to read is written with non-temporal stores.
enum class NonTemporalStores { kMeasured, kNever, kAlways };

struct Settings {
  // Settings that matter with several hosts only. False: every member exchanges with every other,
  // whatever its host.
  bool hierarchical_allreduce = true;  // and reducescatter
  bool hierarchical_allgather = true;
  NonTemporalStores non_temporal_stores = NonTemporalStores::kMeasured;
};

// Shared memory a lane of a set with members on so many hosts needs per member on a host, for open_lane().
size_t bytes_per_member(int set_size, int hosts);

// The lane outlives the communicator.
std::unique_ptr<Communicator> make_communicator(transport::Lane& lane, const Settings& settings);

}  // namespace hvd::collectives
