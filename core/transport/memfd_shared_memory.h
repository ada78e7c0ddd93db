// SPDX-License-Identifier: Apache-2.0
// The shared memory of ranks that are processes: a sealed memfd for each host and job, which has no
// name anywhere and so vanishes with the last process that holds it.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"
#include "transport/host_shared_memory.h"

namespace hvd::transport {

class MemfdSharedMemory final : public HostSharedMemory {
 public:
  // The first rank of a host makes the file and the board in it.
  static Result<Fd> make_file(int members);
  // Maps a file made by make_file(), here or in another process. `bells` in member order.
  static Result<std::shared_ptr<MemfdSharedMemory>> open(Fd file, std::vector<Fd> bells);

  const Board& board() const override { return board_; }
  int bell(int member) const override { return bells_[static_cast<size_t>(member)].get(); }
  Result<Window> open_window(int id, size_t bytes, int members, int me) override;
  void close_window(int id) noexcept override;

 private:
  Fd file_;
  Mapping memory_;
  Board board_;
  std::vector<Fd> bells_;
};

}  // namespace hvd::transport
