// SPDX-License-Identifier: Apache-2.0
#include "transport/memfd_shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <utility>

namespace hvd::transport {
namespace {

// Each lane has its own 4 GiB of the sparse file, so that an offset follows from the lane's id
// alone.
constexpr uint64_t kStride = uint64_t{4} << 30;
constexpr size_t kWindowHeader = 4096;

// First page of a window.
struct WindowHeader {
  std::atomic<uint32_t> members;
  std::atomic<uint32_t> closed;
};

uint64_t offset_of(int id) { return kStride * (static_cast<uint64_t>(id) + 1); }

// Takes the pages now: writing to a mapping whose pages cannot be had later would kill the process
// by SIGBUS.
Status reserve(int fd, uint64_t offset, uint64_t bytes) {
  if (bytes == 0) return {};
  rlimit limit{};
  // A file beyond RLIMIT_FSIZE is answered by a signal instead of an error.
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      offset + bytes > limit.rlim_cur) {
    return Status(Code::kOutOfMemory, "shared memory: file size limit is " +
                                          std::to_string(limit.rlim_cur) +
                                          " bytes, needed is unlimited (ulimit -f)");
  }
  int result = EINTR;
  while (result == EINTR)
    result = ::posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  if (result == 0) return {};
  Status failed = io_error("shared memory: reserving " + std::to_string(bytes) + " bytes", result);
  if (result != ENOSPC && result != ENOMEM) return failed;
  return Status(Code::kOutOfMemory, failed.message()).with_errno(result);
}

Result<int> new_memfd() {
  constexpr unsigned kNoExecSeal = 8;  // MFD_NOEXEC_SEAL, Linux 6.3
  int fd = ::memfd_create("hvd", MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd < 0 && errno == EINVAL) fd = ::memfd_create("hvd", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return io_error("shared memory: memfd_create", errno);
  return fd;
}

}  // namespace

Result<Fd> MemfdSharedMemory::make_file(int members) {
  Result<int> made = new_memfd();
  if (!made.ok()) return made.status();
  Fd file(made.value());
  const size_t bytes = Board::bytes_for(members);
  HVD_TRY(reserve(file.get(), 0, bytes));
  // Growing stays allowed, for lanes.
  if (::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    return io_error("shared memory: sealing", errno);
  }
  Result<Mapping> memory = Mapping::file(file.get(), 0, bytes);
  if (!memory.ok()) return memory.status();
  Board::create(memory.value().bytes(), members);
  return file;
}

Result<std::shared_ptr<MemfdSharedMemory>> MemfdSharedMemory::open(Fd file, std::vector<Fd> bells) {
  const int members = static_cast<int>(bells.size());
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status(Code::kInternal, "shared memory: the file is not sealed");
  Result<Mapping> memory = Mapping::file(file.get(), 0, Board::bytes_for(members));
  if (!memory.ok()) return memory.status();
  Result<Board> board = Board::attach(memory.value().bytes(), members);
  if (!board.ok()) return board.status();
  auto shared = std::make_shared<MemfdSharedMemory>();
  shared->file_ = std::move(file);
  shared->memory_ = std::move(memory).value();
  shared->board_ = board.value();
  shared->bells_ = std::move(bells);
  return shared;
}

Result<Window> MemfdSharedMemory::open_window(int id, size_t bytes, int members, int me) {
  const size_t total = kWindowHeader + whole_pages(bytes);
  if (id < 0 || total > kStride) {
    return Status(Code::kInternal, "lane " + std::to_string(id) + ": " + std::to_string(bytes) +
                                       " bytes do not fit");
  }
  const uint64_t part = bytes / static_cast<size_t>(members),
                 begin = part * static_cast<uint64_t>(me);
  const uint64_t end = me + 1 == members ? bytes : begin + part;
  HVD_TRY(reserve(file_.get(), offset_of(id), kWindowHeader));
  // A mapping may be touched as far as the file goes only.
  HVD_TRY(reserve(file_.get(), offset_of(id) + total - 1, 1));
  HVD_TRY(reserve(file_.get(), offset_of(id) + kWindowHeader + begin, end - begin));
  Result<Mapping> mapped = Mapping::file(file_.get(), offset_of(id), total);
  if (!mapped.ok()) return mapped.status();
  auto mapping = std::make_shared<Mapping>(std::move(mapped).value());
  auto* header = reinterpret_cast<WindowHeader*>(mapping->bytes().data());
  header->members.store(static_cast<uint32_t>(members), std::memory_order_relaxed);
  return Window{mapping->bytes().subspan(kWindowHeader, bytes), mapping};
}

void MemfdSharedMemory::close_window(int id) noexcept {
  Result<Mapping> page = Mapping::file(file_.get(), offset_of(id), kWindowHeader);
  if (!page.ok()) return;  // the pages stay until the job ends
  auto* header = reinterpret_cast<WindowHeader*>(page.value().bytes().data());
  if (header->closed.fetch_add(1) + 1 != header->members.load(std::memory_order_relaxed)) return;
  ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(offset_of(id)), static_cast<off_t>(kStride));
}

}  // namespace hvd::transport
