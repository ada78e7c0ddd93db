// SPDX-License-Identifier: Apache-2.0
#include "engine/flight_memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace hvd::engine {

FlightMemory::FlightMemory(const std::string& file, size_t bytes) : bytes_(bytes) {
  void* memory = file.empty() ? MAP_FAILED : map_file(file);
  const bool is_file = memory != MAP_FAILED;
  if (!is_file)
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
  // A rank before this one may have used the file. The file's size stays as it is, because a
  // process that reads a mapped file is killed when the file is cut off.
  if (is_file && header().magic.exchange(0) != 0) std::memset(memory, 0, bytes);
}

FlightMemory::~FlightMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

// The room is allocated at once: otherwise a full disk would kill whoever writes to the memory.
void* FlightMemory::map_file(const std::string& file) {
  file_.reset(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  int error = file_ && flock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
  if (error == 0) error = posix_fallocate(file_.get(), 0, static_cast<off_t>(bytes_));
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
    if (memory == MAP_FAILED) error = errno;
  }
  if (error != 0) {
    file_.reset();
    problem_ = io_error("flight_file \"" + file + "\" is not used", error);
  }
  return memory;
}

}  // namespace hvd::engine
