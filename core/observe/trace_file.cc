// SPDX-License-Identifier: Apache-2.0
#include "observe/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hvd::observe {

namespace {

constexpr std::string_view kEmpty = "[\n]";
constexpr size_t kWord = sizeof(uint64_t);

// Writes all, and returns 0, or the number of the error.
int write_at(int file, std::string_view text, uint64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(file, text.data(), text.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    if (written == 0) return EIO;
    at += static_cast<uint64_t>(written);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

void Elements::drop(size_t count) {
  if (count == 0) return;
  const size_t bytes = ends_[count - 1];
  text_.erase(0, bytes);
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<ptrdiff_t>(count));
  for (size_t& end : ends_) end -= bytes;
}

Status TraceFile::failed(int number) const { return io_error("cannot write " + path_, number); }

Status TraceFile::open(const std::string& path) {
  path_ = path;
  file_.reset(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file_) return io_error("cannot open " + path, errno);
  bracket_ = kEmpty.size() - 1;
  empty_ = true;
  if (const int number = write_at(file_.get(), kEmpty, 0); number != 0) return failed(number);
  return {};
}

Status TraceFile::append(Elements* elements) {
  size_t done = 0;
  Status status;
  std::string group;
  while (done < elements->count()) {
    const uint64_t room = kPage - bracket_ % kPage;
    group.clear();
    size_t next = done;
    for (; next < elements->count(); ++next) {
      const std::string_view element = elements->at(next);
      const bool first = empty_ && next == 0;
      if (group.size() + element.size() + 3 > room) break;  // comma, line break and bracket
      if (!first) group += ',';
      group += element;
      group += '\n';
    }
    if (next == done) {
      status = elements->at(done).size() > kLongest
                   ? Status(Code::kInternal, "an element of " + path_ + " is longer than a page")
                   : next_page();
    } else {
      group += ']';
      status = write_group(group);
    }
    if (!status.ok()) break;
    if (next > done) empty_ = false;
    done = next;
  }
  elements->drop(done);
  return status;
}

// The text ends with a bracket and stays inside the page.
Status TraceFile::write_group(std::string_view text) {
  if (const int number = write_at(file_.get(), text, bracket_); number != 0) return restore(number);
  bracket_ += text.size() - 1;
  return {};
}

// Puts the bracket at the beginning of the next page, after blanks.
Status TraceFile::next_page() {
  const uint64_t page_end = bracket_ - bracket_ % kPage + kPage;
  std::string blanks(page_end - bracket_, ' ');
  blanks.back() = ']';
  if (blanks.size() > 1) {
    if (const int number = write_at(file_.get(), blanks, bracket_); number != 0)
      return restore(number);
    bracket_ = page_end - 1;
  }
  const std::string room(kWord, ' ');  // blanks may follow the array
  if (const int number = write_at(file_.get(), room, page_end); number != 0) return restore(number);
  if (!carry_bracket(page_end)) {
    // Memory of this file system cannot be mapped; a kill between the two pages spoils the file.
    if (const int number = write_at(file_.get(), " ]", page_end - 1); number != 0)
      return restore(number);
  }
  bracket_ = page_end;
  return {};
}

// A single store that lies on both pages. A kill comes before an instruction or after it.
bool TraceFile::carry_bracket(uint64_t page_end) noexcept {
  const auto unit = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (page_end - kWord) / unit * unit;
  const size_t size = page_end + kWord - begin;
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(),
                              static_cast<off_t>(begin));
  if (memory == MAP_FAILED) return false;
  char* const middle = static_cast<char*>(memory) + (page_end - begin);
  // The stores before the last one see to it that both pages are there and may be written.
  static_cast<volatile char*>(middle)[0] = ' ';
  static_cast<volatile char*>(middle)[-2] = static_cast<volatile char*>(middle)[-2];
  char bytes[kWord];
  std::memcpy(bytes, middle - kWord / 2, kWord);
  bytes[kWord / 2 - 1] = ' ';
  bytes[kWord / 2] = ']';
  uint64_t word = 0;
  std::memcpy(&word, bytes, kWord);
  using Anywhere [[gnu::aligned(1), gnu::may_alias]] = uint64_t;
  *reinterpret_cast<volatile Anywhere*>(middle - kWord / 2) = word;
  ::munmap(memory, size);
  return true;
}

// A write ended early: makes the array what it was before.
Status TraceFile::restore(int number) {
  (void)write_at(file_.get(), "]", bracket_);
  (void)::ftruncate(file_.get(), static_cast<off_t>(bracket_ + 1));
  return failed(number);
}

}  // namespace hvd::observe
