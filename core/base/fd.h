// SPDX-License-Identifier: Apache-2.0
// A file descriptor that closes itself, and that a child made by fork does not keep open.
#pragma once

#include <unistd.h>

#include <utility>

namespace hvd {

// The library's own from now on: in a forked child it stands for /dev/null. Thread safe.
void own_descriptor(int number) noexcept;
// No longer.
void disown_descriptor(int number) noexcept;

class Fd {
 public:
  Fd() = default;
  explicit Fd(int number) : number_(number) {
    if (number_ >= 0) own_descriptor(number_);
  }
  Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) take(std::exchange(other.number_, -1));
    return *this;
  }
  ~Fd() { take(-1); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void reset(int number = -1) {
    take(number);
    if (number_ >= 0) own_descriptor(number_);
  }

 private:
  void take(int number) {
    if (number_ >= 0) {
      disown_descriptor(number_);
      ::close(number_);
    }
    number_ = number;
  }

  int number_ = -1;
};

}  // namespace hvd
