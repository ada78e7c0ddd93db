// SPDX-License-Identifier: Apache-2.0
// Adasum of tensors on devices, as collectives/adasum.cc does it on the host: every member gets its
// share of all inputs, the inner products of each tensor are added up, and the shares are summed
// with the weights that follow from them. The host waits for nothing.
#pragma once

#include <functional>
#include <vector>

#include "backend/backend.h"
#include "collectives/program.h"
#include "device/kernels.h"

namespace hvd::backend::nccl {

class Adasum {
 public:
  struct Around {
    int members;
    int me;
    device::StreamHandle stream;
    const device::Kernels& kernels;
    std::byte* buffer;                             // kFusionBytes
    std::function<Status(const Work& work)> call;  // a work without scales
    collectives::Condition queued;                 // whether that is on the stream
    Status* failure;                               // an error ends the program, and is there
  };
  // Whether the buffer is large enough for that many.
  static bool serves(int members);

  explicit Adasum(Around around) : around_(std::move(around)) {}
  // The work and this object outlive the program.
  collectives::Program run(const Work& work);

 private:
  // Bytes of one tensor that go through the buffer in one round, in a share for each member.
  struct Piece {
    size_t item;
    size_t at;     // in the item
    size_t place;  // in the round
    size_t bytes;
  };
  struct Round {
    size_t share = 0;  // bytes, of each member
    std::vector<Piece> pieces;
  };
  using Step = device::Kernels::AdasumStep;

  size_t batch_end(const Work& work, size_t first) const;
  std::vector<Round> rounds_of(const Work& work, size_t first, size_t last) const;
  bool fails(Status status);
  bool failed() const { return !around_.failure->ok(); }
  bool begin_batch(const Work& work, size_t first, size_t last);
  // Each begins with kernels and ends with a call, or the other way round.
  Status exchange(const Work& work, const Round& round);
  Status multiply(const Work& work, const Round& round);
  Status add_up_products();
  Status combine(const Work& work, const Round& round);
  Status unpack(const Work& work, const Round& round) const;
  void begin_tables(size_t tensors);
  void make_tables(const Round& round, size_t first);
  Status apply(const Work& work, double factor,
               const std::vector<device::Kernels::Segment>& segments) const;
  Status step(Step step, const Work& work, const device::cuda::AdasumTable& table) const;

  size_t members() const { return static_cast<size_t>(around_.members); }
  size_t me() const { return static_cast<size_t>(around_.me); }

  const Around around_;
  device::cuda::AdasumTable whole_{};              // for the batch, without segments
  std::vector<device::cuda::AdasumTable> tables_;  // for the round
  size_t first_ = 0;                               // item of the batch
  std::vector<Round> rounds_;                      // rounds of the batch
};

}  // namespace hvd::backend::nccl
