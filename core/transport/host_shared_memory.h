// SPDX-License-Identifier: Apache-2.0
// What the ranks of one host hold in common: the board, a bell for each rank, and windows of memory
// for lanes. Ranks are threads (ThreadSharedMemory) or processes (MemfdSharedMemory); everything
// above is the same code.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "transport/board.h"

namespace hvd::transport {

// The memory of one lane as one member has it mapped.
struct Window {
  std::span<std::byte> memory;
  std::shared_ptr<void> keep;
};

class HostSharedMemory {
 public:
  virtual ~HostSharedMemory() = default;
  virtual const Board& board() const = 0;
  // The eventfd of a member; writing to it wakes that member.
  virtual int bell(int member) const = 0;
  // Thread safe. `members` of this host will open window `id` and, later, close it. Each makes sure
  // that there is memory for the `me`-th of as many equal parts, the one it will write to; once all
  // have opened the window, all of it is there.
  virtual Result<Window> open_window(int id, size_t bytes, int members, int me) = 0;
  // The last of the members gives the pages back to the system.
  virtual void close_window(int id) noexcept = 0;
};

// Pages that unmap themselves.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  static Result<Mapping> anonymous(size_t bytes);
  static Result<Mapping> file(int fd, uint64_t offset, size_t bytes);
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes_;
};

size_t whole_pages(size_t bytes);
// 16 bytes from the system's generator, as 32 hexadecimal digits.
Result<std::string> random_token();
Result<Fd> new_bell();

}  // namespace hvd::transport
