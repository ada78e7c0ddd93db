// SPDX-License-Identifier: Apache-2.0
// The memory of a flight recorder: private, or a file that other processes read.
#pragma once

#include <cstddef>
#include <string>

#include "base/fd.h"
#include "base/status.h"
#include "engine/flight_layout.h"

namespace hvd::engine {

class FlightMemory {
 public:
  // Zeros. Where `file` is empty, cannot be used, or is used by another context, the memory is
  // private. Throws std::bad_alloc.
  FlightMemory(const std::string& file, size_t bytes);
  ~FlightMemory();
  FlightMemory(const FlightMemory&) = delete;
  FlightMemory& operator=(const FlightMemory&) = delete;

  std::byte* data() const { return data_; }
  FlightHeader& header() const { return *reinterpret_cast<FlightHeader*>(data_); }
  // Why the file is not used.
  const Status& problem() const { return problem_; }

 private:
  void* map_file(const std::string& file);

  size_t bytes_;
  Fd file_;  // holds the lock
  Status problem_;
  std::byte* data_ = nullptr;
};

}  // namespace hvd::engine
