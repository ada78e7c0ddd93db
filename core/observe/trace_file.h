// SPDX-License-Identifier: Apache-2.0
// A file with a JSON array that grows, and that is whole whenever its process is killed.
//
// New elements are written over the closing bracket, with a bracket of their own behind them. The
// kernel lets a kill end a write between two pages, never inside of one, so each write stays inside
// one page. The bracket itself gets from one page to the next by a single instruction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace hvd::observe {

// Elements for a TraceFile, one after another in one text.
class Elements {
 public:
  // The element's text is appended to text() before end() is called.
  std::string& text() { return text_; }
  void end() { ends_.push_back(text_.size()); }
  size_t count() const { return ends_.size(); }
  size_t bytes() const { return text_.size(); }
  std::string_view at(size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(text_).substr(begin, ends_[index] - begin);
  }
  // Forgets the first `count` elements.
  void drop(size_t count);

 private:
  std::string text_;
  std::vector<size_t> ends_;
};

class TraceFile {
 public:
  static constexpr size_t kPage = 4096;
  static constexpr size_t kLongest = kPage - 8;  // bytes of an element

  // Makes the file, or empties it, and writes an array without elements.
  Status open(const std::string& path);
  // Writes the elements and drops them from the list. On an error the array keeps what had been
  // written until then, the list keeps the rest, and the call may be made again.
  Status append(Elements* elements);

 private:
  Status write_group(std::string_view text);
  Status next_page();
  bool carry_bracket(uint64_t page_end) noexcept;
  Status restore(int number);
  Status failed(int number) const;

  std::string path_;
  Fd file_;
  uint64_t bracket_ = 0;  // where the closing bracket is
  bool empty_ = true;
};

}  // namespace hvd::observe
