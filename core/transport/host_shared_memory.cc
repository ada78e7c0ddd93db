// SPDX-License-Identifier: Apache-2.0
#include "transport/host_shared_memory.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <cerrno>
#include <utility>

namespace hvd::transport {

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

Result<Mapping> Mapping::anonymous(size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return io_error("shared memory: mmap of " + std::to_string(bytes) + " bytes", errno);
  return Mapping({static_cast<std::byte*>(at), bytes});
}

Result<Mapping> Mapping::file(int fd, uint64_t offset, size_t bytes) {
  void* at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED)
    return io_error("shared memory: mmap of " + std::to_string(bytes) + " bytes", errno);
  return Mapping({static_cast<std::byte*>(at), bytes});
}

size_t whole_pages(size_t bytes) { return (bytes + 4095) & ~size_t{4095}; }

Result<std::string> random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes))
    return io_error("getrandom", errno);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Result<Fd> new_bell() {
  Fd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell) return io_error("eventfd", errno);
  return bell;
}

}  // namespace hvd::transport
