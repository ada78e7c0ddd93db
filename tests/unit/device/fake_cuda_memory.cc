// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

namespace fake_cuda {

namespace {

struct Memory {
  int device;
  size_t bytes;
  std::byte* shadow;
};

std::mutex mutex;
std::map<uintptr_t, Memory> memories;  // by the address that programs see
std::map<uintptr_t, size_t> locked;

uintptr_t number(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

template <class Map>
typename Map::iterator containing(Map& all, const void* memory) {
  auto found = all.upper_bound(number(memory));
  return found == all.begin() ? all.end() : std::prev(found);
}

size_t pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

}  // namespace

void* allocate_memory(int device, size_t bytes) {
  const int file = ::memfd_create("fake_cuda", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(pages(bytes))) != 0) return nullptr;
  void* seen = ::mmap(nullptr, pages(bytes), PROT_NONE, MAP_SHARED, file, 0);
  void* shadow = ::mmap(nullptr, pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  std::lock_guard<std::mutex> lock(mutex);
  memories[number(seen)] = {device, bytes, static_cast<std::byte*>(shadow)};
  return seen;
}

bool free_memory(void* memory) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = memories.find(number(memory));
  if (found == memories.end()) return false;
  ::munmap(memory, pages(found->second.bytes));
  ::munmap(found->second.shadow, pages(found->second.bytes));
  memories.erase(found);
  return true;
}

std::byte* find_memory(const void* memory, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = containing(memories, memory);
  if (found == memories.end()) return nullptr;
  const size_t at = number(memory) - found->first;
  return at + bytes <= found->second.bytes ? found->second.shadow + at : nullptr;
}

int device_of(const void* memory) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = containing(memories, memory);
  return found != memories.end() && number(memory) < found->first + found->second.bytes
             ? found->second.device
             : -1;
}

size_t memories_of(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  size_t count = 0;
  for (const auto& [address, memory] : memories) count += memory.device == device ? 1 : 0;
  return count;
}

void* allocate_locked(size_t bytes) {
  void* memory = std::malloc(bytes);
  std::lock_guard<std::mutex> lock(mutex);
  locked[number(memory)] = bytes;
  return memory;
}

bool free_locked(void* memory) {
  std::lock_guard<std::mutex> lock(mutex);
  if (locked.erase(number(memory)) == 0) return false;
  std::free(memory);
  return true;
}

size_t locked_bytes() {
  std::lock_guard<std::mutex> lock(mutex);
  size_t bytes = 0;
  for (const auto& [address, size] : locked) bytes += size;
  return bytes;
}

bool is_locked(const void* memory, size_t bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = containing(locked, memory);
  return found != locked.end() && number(memory) + bytes <= found->first + found->second;
}

}  // namespace fake_cuda
